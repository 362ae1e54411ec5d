"""The commands that need no extra, one module for each or for a few that belong together."""
