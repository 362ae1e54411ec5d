"""Writes the parts of the documentation that are taken from the code or from measurements."""
