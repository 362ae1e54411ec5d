"""Ackline in Django: a backend for its tasks, a worker command, and care for connections."""
