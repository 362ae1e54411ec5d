"""Many jobs at once: files into jobs, jobs into files, and out of the DLQ by a condition."""
