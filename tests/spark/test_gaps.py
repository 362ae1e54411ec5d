"""A lake goes on without events that are gone, if it is told to, and says what it lacks."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException

from ackline.cli.pipeline_errors import in_plain_words
from ackline.spark.errors import StreamBehind
from ackline.spark.gaps import Gap
from tests.spark.lakeside import Lakeside


@pytest.fixture
def side(spark, tmp_path):
    side = Lakeside(spark, tmp_path)
    yield side
    side.queues.close()


def test_a_queue_that_lost_events_holds_nothing_up_for_ever(side):
    side.queues["a"].enqueue(1)
    side.run()
    queue = side.queues["b"]
    queue.configure(max_journal=1)
    for number in range(5):
        queue.enqueue(number)
    side.queues.store.prune(queue.key, 100)

    with pytest.raises(StreamingQueryException) as caught:
        side.run()
    told = in_plain_words(caught.value)
    assert isinstance(told, StreamBehind)
    assert "--skip-dropped b" in str(told)

    assert side.run(skip_dropped=("b",)).skipped == 1
    side.queues["a"].enqueue(2)
    assert side.run().skipped == 0

    [gap] = side.lake.require().gaps
    assert gap == Gap(queue="b", after="0.0", until=gap.until)
    kept = [event.cursor for event in queue.events()]
    assert [row["cursor"] for row in side.rows("bronze", "events") if row["queue"] == "b"] == kept
