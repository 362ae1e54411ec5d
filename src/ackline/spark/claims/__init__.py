"""Jobs as a stream: `stream` is the interface to Spark, `claims` does the work without Spark."""
