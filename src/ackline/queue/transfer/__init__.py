"""Jobs and events as documents: export, import, and snapshots of a queue in use."""
