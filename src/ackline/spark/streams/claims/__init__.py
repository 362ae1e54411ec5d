"""Jobs as a stream: `stream_reader` is what Spark calls, `coordinator` needs no Spark."""
