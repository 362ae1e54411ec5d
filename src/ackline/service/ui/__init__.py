"""Static pages: the dashboard, and the documentation of the API."""
