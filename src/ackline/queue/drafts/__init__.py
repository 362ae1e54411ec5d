"""Validates what is enqueued and turns it into drafts, in batches of bounded size."""
