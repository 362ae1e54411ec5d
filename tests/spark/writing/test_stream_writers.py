"""Streams that Spark itself writes: only there a task knows its micro-batch."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet
import pytest

import ackline
from ackline.core.job import State


@pytest.fixture
def write(sqlite_url, tmp_path):
    """Write what a stream has now; answers the numbers of the micro-batches."""

    def call(rows, table, **options):
        query = (
            rows.writeStream.format("ackline")
            .options(store=sqlite_url, table=table, queue="email", **options)
            .option("checkpointLocation", f"{tmp_path}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [progress["batchId"] for progress in query.recentProgress]

    return call


@pytest.fixture
def email(sqlite_url):
    with ackline.open(sqlite_url) as queues:
        yield queues["email"]


def forget_last_commit(checkpoint: Path) -> None:
    """As if Spark had been killed before it noted that the first micro-batch is done."""
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


def test_a_replayed_micro_batch_writes_nothing_twice(spark, write, email, tmp_path):
    rows = [{"id": "a", "payload": "1"}, {"id": "bad", "payload": "{"}, {"id": "b", "payload": "2"}]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text("\n".join(map(json.dumps, rows)))
    stream = spark.readStream.schema("id string, payload string").json(f"{tmp_path}/in")
    rejected = tmp_path / "rejected"

    assert write(stream, "jobs", rejectedPath=str(rejected)) == [0]
    [first] = rejected.iterdir()
    before = first.stat().st_ino
    forget_last_commit(tmp_path / "checkpoint")
    assert write(stream, "jobs", rejectedPath=str(rejected)) == [0]

    [again] = rejected.iterdir()
    query = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
    assert again.name == first.name == f"stream-{query}-batch-0-00000.parquet"
    assert again.stat().st_ino != before
    [row] = pyarrow.parquet.read_table(again).to_pylist()
    assert json.loads(row["row"])["id"] == "bad"
    assert [event.id for event in email.events()] == ["a", "b"]


def test_claims_are_settled_by_the_stream_of_their_outcomes(spark, write, email, sqlite_url):
    for id in "ab":
        email.enqueue(id, id=id)
    claims = spark.readStream.format("ackline").option("store", sqlite_url)
    claims = claims.options(queue="email", streamId="s", ack="outcome", wait="0").load("jobs")

    write(claims.selectExpr("id", "token", "'complete' outcome", "'[1]' result"), "outcomes")

    assert email.counts()[State.COMPLETED] == 2
    assert email.result("a") == [1]
