"""Writing DataFrames: rows into `jobs`, and the outcomes of claimed jobs."""
