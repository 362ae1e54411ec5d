"""A lake goes on without events that are gone, if it is told to, and says what it lacks."""

from __future__ import annotations

import msgspec
import pytest
from pyarrow.fs import LocalFileSystem
from pyspark.errors import StreamingQueryException
from tests.spark.support.lake_and_store import DAY, Died, Lakeside

from ackline.cli.pipeline.gap_text import gap_text
from ackline.cli.pipeline.spark_errors import translate_error
from ackline.spark.errors import LakeDamaged, StreamBehind
from ackline.spark.journal.gaps import MAX_LISTED, Gap, compact_gaps, new_gaps
from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.placing import replacing
from ackline.spark.lake.running import Asked, Run
from ackline.spark.lake.skipped import gaps_up_to
from ackline.spark.reports.report_data import collect_report
from ackline.spark.streams.events.offset import EventsOffset, StreamScope
from ackline.spark.streams.events.pending_gaps import PendingGaps

pytestmark = pytest.mark.ci


@pytest.fixture
def side(spark, tmp_path):
    side = Lakeside(spark, tmp_path)
    yield side
    side.queues.close()


def test_a_queue_that_lost_events_holds_nothing_up_for_ever(side):
    side.queues["a"].enqueue(1)
    end = side.queues.info().cursor
    side.run()
    queue = side.queues["b"]
    queue.configure(max_journal=1)
    for number in range(5):
        queue.enqueue(number)
    side.queues.store.prune(queue.key, 100)

    with pytest.raises(StreamingQueryException) as caught:
        side.run()
    translated = translate_error(caught.value)
    assert isinstance(translated, StreamBehind)
    assert "--skip-dropped b" in str(translated)

    [gap] = side.run(skip_dropped=("b",)).skipped
    side.queues["a"].enqueue(2)
    assert side.run().skipped == []

    [first, *_] = queue.events()
    now = side.queues.store.now()
    # The stream had got so far when the queue came into being.
    assert (gap.queue, gap.after, gap.retained_from) == ("b", end, first.at)
    assert gap.skipped_at == pytest.approx(now, abs=DAY)
    assert side.lake.require().gaps == [gap]
    assert collect_report(side.spark, side.lake).gaps == [gap]
    kept = [event.cursor for event in queue.events()]
    assert [row["cursor"] for row in side.rows("bronze", "events") if row["queue"] == "b"] == kept


class Forgetful(Run):
    """Killed when all is read, and before the lake says what is missing."""

    def _note_gaps(self, query):
        raise Died


def test_a_run_that_was_killed_at_its_end_is_made_up_for_by_the_next(side):
    queue = side.queues["a"]
    queue.configure(max_journal=3)
    side.run()
    queue.enqueue_many(range(3))
    queue.enqueue_many(range(3))
    side.queues.store.prune(queue.key, 100)
    options = Asked(url=side.url, tenant="default", lake=side.path, skip_dropped=("a",))
    with pytest.raises(Died):
        Forgetful(side.spark, side.queues, options).to_now()
    assert not side.lake.require().gaps
    known = side.lake.gaps

    [gap] = side.run().skipped

    assert known == side.lake.require().gaps == side.lake.gaps == [gap]


def test_a_batch_that_was_broken_off_tells_what_it_lacks_when_it_is_done_again(side):
    queue = side.queues["a"]
    queue.enqueue_many(range(3))
    with pytest.raises(StreamingQueryException):
        side.run(die_at="bronze")
    queue.configure(max_journal=3)
    queue.enqueue_many(range(3))
    side.queues.store.prune(queue.key, 100)

    ran = side.run(skip_dropped=("a",))

    kept = [event.cursor for event in queue.events()]
    assert [row["cursor"] for row in side.rows("bronze", "events")] == kept
    assert {gap.queue for gap in ran.skipped} == {"a"}
    assert ran.skipped[0].after < ran.skipped[-1].until
    assert collect_report(side.spark, side.lake).gaps == ran.skipped


@pytest.mark.parametrize("store_name", ["sqlite"])
class TestAsSoonAsTheBatchIsThere:
    """Audits and reports must not wait for the end of the run. Spark is not needed."""

    @pytest.fixture
    def lake(self, tmp_path, queues):
        lake = Lake(str(tmp_path / "lake"))
        lake.open(queues)
        return lake

    def write_offset(self, lake, **values):
        """As Spark does it before it runs batch 3."""
        scope = StreamScope(tenant="default", queue=None)
        offset = EventsOffset(
            started_at="oldest", cursors={"a": "9.0"}, gaps_key="s", scope=scope, **values
        )
        written = b"v1\n{}\n" + msgspec.json.encode(offset)
        with replacing(LocalFileSystem(), lake.folder.at("checkpoint", "offsets", "3")) as file:
            file.write(written)

    def test_those_that_were_known_when_it_was_planned(self, lake, address):
        self.write_offset(lake, gaps=gaps_of("a", 2))

        assert gaps_up_to(3, lake, address) == gaps_of("a", 2)

    def test_those_that_were_found_when_it_was_run_again(self, lake, address, queues):
        self.write_offset(lake, gaps=gaps_of("a", 2))
        PendingGaps(queues).record("s", gaps_of("a", 2, first=1))

        assert gaps_up_to(3, lake, address) == gaps_of("a", 3)

    def test_none_without_a_stream(self, lake, address):
        assert gaps_up_to(3, lake, address) == []

    def test_an_offset_of_another_form_is_not_taken_for_one_without_gaps(self, lake, address):
        lake.folder.write_json({"0": {"gaps": []}}, "checkpoint", "offsets", "3")

        with pytest.raises(LakeDamaged, match="offsets/3"):
            gaps_up_to(3, lake, address)

    def test_the_lake_has_those_of_its_last_batch_and_of_its_last_run(self, lake):
        lake.change(gaps=gaps_of("a", 1))
        for number in range(2):
            listed = gaps_of("a", 1 + number) + gaps_of("b", number)
            batch = Batch(number=number, events=1, ended=0, days=[], last_at=0.0, gaps=listed)
            lake.log.add(batch)

        assert lake.gaps == gaps_of("a", 2) + gaps_of("b", 1)


def gaps_of(queue, count, first=0):
    return [
        Gap(queue=queue, after=f"{n}.0", until=f"{n}.9", skipped_at=float(n))
        for n in range(first, first + count)
    ]


def test_few_gaps_stay_as_they_are():
    gaps = [*gaps_of("a", MAX_LISTED), *gaps_of("b", 3, MAX_LISTED)]

    assert compact_gaps(gaps) == gaps


def test_the_oldest_of_many_gaps_are_one():
    gaps = gaps_of("a", MAX_LISTED + 5)

    [old, *others] = compact_gaps(gaps)

    assert (old.after, old.until, old.skipped_at, old.count) == ("0.0", "4.9", 4.0, 5)
    assert others == gaps[5:]
    assert compact_gaps(compact_gaps(gaps)[:1] + gaps[5:]) == compact_gaps(gaps)
    assert gap_text(old).startswith("queue a: 5 ranges of events after cursor 0.0 up to 4.9")


def test_what_is_new_is_found_though_older_ones_were_put_together():
    known = gaps_of("a", MAX_LISTED)
    new = gaps_of("a", 2, MAX_LISTED) + gaps_of("b", 1)

    assert new_gaps(compact_gaps(known + new), known) == sorted(new, key=lambda gap: gap.skipped_at)
    assert new_gaps(compact_gaps(known), known) == []
