"""Jobs and the journal as streams."""
