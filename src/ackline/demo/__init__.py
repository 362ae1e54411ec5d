"""The demo: handlers, a load for them, and the proof that no job was lost."""
