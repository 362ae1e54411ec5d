"""Authentication, permissions, and one request's access to the store."""
