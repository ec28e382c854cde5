"""Puts this folder on the path of its tests: they share `waiting`."""
