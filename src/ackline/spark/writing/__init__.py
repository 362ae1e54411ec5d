"""What a DataFrame writes: rows into `jobs`, and the outcomes of claimed ones."""
