"""Rules about jobs: every step from enqueue to the DLQ."""
