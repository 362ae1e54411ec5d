"""The lake as a job for spark-submit: lake.py STORE LAKE.

spark-submit starts Spark, with its own master and settings.
"""

import sys

from pyspark.sql import SparkSession

import ackline
from ackline.spark.lake.running import Asked, Run


def main(url: str, lake: str) -> None:
    spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    with ackline.open(url) as queues:
        ran = Run(spark, queues, Asked(url=url, tenant=queues.tenant, lake=lake)).to_now()
    print(f"{ran.events} events in {ran.batches} batches, gold of {ran.days} days")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
