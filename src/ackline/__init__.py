"""A reliable job queue: an accepted job is never lost, no stale worker overwrites a live one."""
