"""How Spark reads a store: addresses, retries, page sizes, tasks."""
