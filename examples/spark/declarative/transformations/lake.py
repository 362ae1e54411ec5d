"""Journal → bronze → silver → gold as a declarative pipeline: Spark decides what to rebuild.

It uses the functions of `ackline pipeline run`. Bronze grows incrementally, but silver and gold are
rebuilt from all of it, so for many millions of events that command is faster.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from ackline.spark.transforms import traffic
from ackline.spark.transforms.job_runs import job_runs, timed_steps

spark = SparkSession.active()


@dp.table
def events() -> DataFrame:
    """Bronze: the journal, entry by entry."""
    store = spark.conf.get("spark.ackline.store")
    return spark.readStream.format("ackline").option("store", store).load("events")


@dp.temporary_view
def steps() -> DataFrame:
    """Each entry with the one before it."""
    return timed_steps(spark.read.table("events"))


@dp.materialized_view
def jobs() -> DataFrame:
    """Silver: one row for each finished run of a job."""
    return job_runs(spark.read.table("steps").where("not goes_on"))


@dp.materialized_view
def hourly() -> DataFrame:
    """Gold: the jobs of each hour."""
    by = ("day", "hour", *traffic.GROUP_KEY)
    return traffic.finalize(traffic.partial(spark.read.table("steps")), by)
