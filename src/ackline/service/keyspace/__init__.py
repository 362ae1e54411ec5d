"""The keys of a tenant: read, written and watched."""
