"""Checks the histories of all processes against the promises of the library."""
