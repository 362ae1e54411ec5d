"""The journal as a stream: `stream_reader` is what Spark calls, `planner` needs no Spark."""
