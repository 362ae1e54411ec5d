"""The lake as a job for spark-submit: lake.py STORE LAKE.

Spark is started by spark-submit, with the master and the settings that it was given.
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
