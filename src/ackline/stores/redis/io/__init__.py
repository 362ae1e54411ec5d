"""Connections to a server: the URL, the client, its connections and errors."""
