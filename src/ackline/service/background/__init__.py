"""The maintenance loops that every process of the service runs."""
