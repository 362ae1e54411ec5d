"""Jobs and the journal as tables."""
