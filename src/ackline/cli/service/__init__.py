"""The commands of the service: serve, token, webhook. They need `ackline[service]`."""
