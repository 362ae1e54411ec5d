"""The simple routes: messages, dead letters; times in milliseconds."""
