"""Jobs as a stream: `stream` is what Spark asks, `claims` answers it without Spark."""
