"""Blocking work off the event loop: shared fairly by tenants, and done once for all who wait."""
