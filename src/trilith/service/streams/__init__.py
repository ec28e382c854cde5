"""Methods that answer with a stream of items, or take one: how each item is written, and how such methods are run."""
