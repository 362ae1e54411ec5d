"""Waking requests that wait for the store: one subscription serves all of a process."""
