"""Limits of tenants and addresses: requests, jobs, streams, queue depth and failed logins."""
