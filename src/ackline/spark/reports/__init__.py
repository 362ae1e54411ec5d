"""Reports on a lake: what is in them (`facts`), and how it looks on paper (`page`, `plots`)."""
