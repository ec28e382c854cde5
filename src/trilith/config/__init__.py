"""Text to frozen values, with the path of the wrong key in each error."""
