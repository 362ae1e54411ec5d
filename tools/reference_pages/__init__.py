"""Writes the parts of the documentation that come from the code or from measurements."""
