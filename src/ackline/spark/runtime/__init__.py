"""Starting and ending Spark from a command."""
