"""`ackline pipeline …`: commands that use Spark."""
