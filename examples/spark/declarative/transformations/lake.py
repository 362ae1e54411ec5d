"""Journal → bronze → silver → gold, declared: Spark decides what has to be made anew.

The functions are those of `ackline pipeline run`. Spark keeps bronze by itself; silver and gold are
made from all of it, so for a journal of many millions the command is the cheaper way.
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
    """Each entry with what came before it."""
    return timed_steps(spark.read.table("events"))


@dp.materialized_view
def jobs() -> DataFrame:
    """Silver: one row for each life that has ended."""
    return job_runs(spark.read.table("steps").where("not goes_on"))


@dp.materialized_view
def hourly() -> DataFrame:
    """Gold: what passed through in each hour."""
    by = ("day", "hour", *traffic.GROUP_KEY)
    return traffic.finalize(traffic.partial(spark.read.table("steps")), by)
