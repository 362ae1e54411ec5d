"""The lake: journal → bronze → silver → gold, in Parquet; `docs/guides/lake.md` lists its tables.

What is computed is in `ackline.spark.transforms`; here is where it is kept, and when it is done.
"""
