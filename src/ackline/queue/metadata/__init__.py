"""Small records kept beside a queue: callbacks, recovery counts, local max_attempts."""
