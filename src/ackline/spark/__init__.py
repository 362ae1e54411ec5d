"""Jobs and the journal as Spark tables and streams: the format `ackline`, and pipelines on it.

`spark.read.format("ackline")` works wherever this package is installed; nothing has to be
imported or registered. `docs/guides/spark.md` lists the options.
"""
