"""Worker processes and their supervisor, stop signals, and jobs that a dead process had started."""
