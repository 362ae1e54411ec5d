"""One request in, one response out: bodies, parameters, problems and streams, without a queue."""
