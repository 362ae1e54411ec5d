"""The connection to the server: URL, connections, pipelined statements, errors and migrations."""
