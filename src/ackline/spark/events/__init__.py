"""The journal as a table and as a stream.

`table` and `stream` are the interfaces that Spark calls; `planning` decides where a micro-batch
begins and ends.
"""
