"""Rules about a store as a whole: opening, limits, keys, queries, notifications."""
