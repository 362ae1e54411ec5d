"""`ackline pipeline …`: what Spark makes of the journal."""
