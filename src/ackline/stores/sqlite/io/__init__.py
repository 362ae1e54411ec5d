"""The file: its connections, locks, transactions, group commit and migrations."""
