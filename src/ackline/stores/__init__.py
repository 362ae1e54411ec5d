"""Where jobs are stored: one contract, several implementations."""
