"""The complete API, resource by resource; times in seconds."""
