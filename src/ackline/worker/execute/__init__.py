"""Executors: sync handlers run on threads, async handlers as tasks of an event loop."""
