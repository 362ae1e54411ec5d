"""Every route of the service."""
