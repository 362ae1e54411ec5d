"""The journal as a table and as a stream.

`table` and `stream` are what Spark asks; `planning` decides where a micro-batch begins and ends.
"""
