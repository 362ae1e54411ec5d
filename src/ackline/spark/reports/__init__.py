"""Reports on a lake: their contents (`facts`), and how they look as a page (`page`, `plots`)."""
