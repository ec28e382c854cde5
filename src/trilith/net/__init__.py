"""The only code that listens or connects."""
