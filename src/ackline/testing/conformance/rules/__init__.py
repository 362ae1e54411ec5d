"""The rules that every store must keep, by topic."""
