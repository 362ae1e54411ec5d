"""Programs that the harness runs as processes, one for each role."""
