"""Who calls, by a token, an API key or a loopback address, and what they may do and see."""
