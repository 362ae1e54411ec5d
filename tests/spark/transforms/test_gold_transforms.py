"""What gold is made of: sketches, clusters of errors, busy hours, the forecast."""

from __future__ import annotations

import datetime

import pytest
from pyspark.sql import functions as F  # noqa: N812

from ackline.core.error_fingerprint import fingerprint, normalize_message
from ackline.spark.transforms import error_groups
from ackline.spark.transforms.forecast import (
    TOO_LITTLE_DATA,
    busiest_hours,
    forecast_week,
    hourly_grid,
)
from ackline.spark.transforms.job_runs import job_runs, timed_steps
from ackline.spark.transforms.open_jobs import open_jobs
from ackline.spark.transforms.sketches import merge_sketches, quantiles, sketch
from ackline.spark.transforms.slo import attainment
from ackline.spark.transforms.traffic import (
    COUNTS,
    MAX_RUN_SECONDS,
    MEASURES,
    finalize,
    latency_by_level,
    partial,
)

MONDAY = datetime.datetime(2026, 11, 2, tzinfo=datetime.UTC)


def test_quantiles_of_merged_sketches_are_within_one_percent_of_rank(spark):
    """Of a long tail, in thirty batches, against the exact ranks."""
    seconds = F.exp(F.randn(7) * 2)
    rows = spark.range(0, 120_000, 1, 2).select(
        (F.col("id") % 30).alias("batch"), seconds.alias("s")
    )
    rows = rows.cache()
    whole = (
        rows.groupBy("batch").agg(sketch(F.col("s")).alias("k")).agg(merge_sketches("k").alias("k"))
    )
    figures = whole.select(*quantiles("k", "s")).first().asDict()
    wanted = {"s_p50": 0.5, "s_p90": 0.9, "s_p99": 0.99, "s_max": 1.0}
    # The control: a quantile that is a fifth too high would be seen.
    figures["wrong"] = 1.2 * figures["s_p90"]
    below = [
        F.avg((F.col("s") <= value).cast("int")).alias(name) for name, value in figures.items()
    ]

    ranks = rows.agg(*below).first().asDict()

    assert {name: abs(ranks[name] - rank) < 0.01 for name, rank in wanted.items()} == dict.fromkeys(
        wanted, True
    )
    assert abs(ranks["wrong"] - wanted["s_p90"]) > 0.01
    rows.unpersist()


def test_the_median_of_all_is_not_that_of_the_slowest(spark):
    """A queue with many quick kinds of jobs and one slow kind, and another queue."""
    rows = [("mail", "quick", priority, 0.1) for priority in (4, 5) for _ in range(40)]
    rows += [("mail", "slow", 5, 60.0)] * 15 + [("images", "resize", 5, 2.0)] * 5
    waits = spark.createDataFrame(rows, "queue string, kind string, priority int, s double")
    hour = waits.withColumns(
        {"day": F.lit(MONDAY.date()), "hour": F.lit(MONDAY), "tenant": F.lit("default")}
    )
    parts = hour.groupBy("day", "hour", "tenant", "queue", "kind", "priority").agg(
        *(F.lit(0).alias(name) for name in (*COUNTS, "busy_seconds")),
        *(sketch(F.when(F.lit(name == "wait"), F.col("s"))).alias(name) for name in MEASURES),
    )

    found = {(row.queue, row.kind): row for row in latency_by_level(parts).collect()}

    assert {level: (row.wait_p50, row.wait_p99, row.run_p50) for level, row in found.items()} == {
        (None, None): (0.1, 60.0, None),
        ("mail", None): (0.1, 60.0, None),
        ("mail", "quick"): (0.1, 0.1, None),
        ("mail", "slow"): (60.0, 60.0, None),
        ("images", None): (2.0, 2.0, None),
        ("images", "resize"): (2.0, 2.0, None),
    }


TRACE = """Traceback (most recent call last):
  File "/srv/{}/mail.py", line {}, in send
    connect(host)
  File "/usr/lib/python3/net.py", line {}, in connect
    raise TimeoutError
"""


@pytest.fixture(scope="module")
def alike(spark):
    rows = [
        (1, "Timeout", "host 10.0.0.1 gave no answer in 30 s", TRACE.format("v1", 10, 5)),
        (2, "Timeout", "host 10.7.0.9 gave no answer in 5.5 s", TRACE.format("v2", 12, 7)),
        (3, "Timeout", "host 10.7.0.9 gave no answer in 5.5 s", None),
        (4, "Timeout", "no route to 'db-1'", TRACE.format("v1", 10, 5)),
        (5, "Timeout", "no route to 'db-2'", TRACE.format("v1", 10, 5)),
        (6, None, None, None),
    ]
    ids = "0b0c7a52-5a0e-4f0e-9c79-0a8f7f7c0a11"
    steps = spark.createDataFrame(
        [
            (
                *("default", "q", "k", MONDAY + datetime.timedelta(seconds=n), f"job-{n}"),
                *("failed", f"KeyError: order {ids}", type, message, trace),
            )
            for n, type, message, trace in rows
        ],
        "tenant string, queue string, kind string, at timestamp, id string, to string, note string,"
        "error_type string, error_message string, error_traceback string",
    )
    parts = error_groups.partial(steps)
    found = error_groups.merge(parts.union(parts), ("day", *error_groups.GROUP_KEY)).collect()
    return {tuple(sorted({one["id"] for one in row["examples"]})): row for row in found}


class TestErrorsAlike:
    def test_numbers_lines_and_releases_do_not_matter(self, alike):
        row = alike["job-1", "job-2"]

        assert row["message"] == "host # gave no answer in # s"
        assert row["way"] == "mail.py:send > net.py:connect"

    def test_quoted_values_do_not_matter(self, alike):
        assert alike["job-4", "job-5"]["message"] == "no route to '…'"

    def test_another_way_through_the_code_is_another_error(self, alike):
        assert alike[("job-3",)]["way"] == ""

    def test_of_a_job_that_is_gone_the_journal_still_tells(self, alike):
        row = alike[("job-6",)]

        assert (row["exception"], row["message"]) == ("KeyError", "order …")

    def test_the_live_dead_letters_have_the_same_marks(self, alike):
        timeout = "host 10.0.0.1 gave no answer in 30 s", TRACE.format("v1", 10, 5)
        route = "no route to 'db-1'", TRACE.format("v1", 10, 5)

        assert alike["job-1", "job-2"]["fingerprint"] == fingerprint("Timeout", *timeout)
        assert alike["job-4", "job-5"]["fingerprint"] == fingerprint("Timeout", *route)
        assert alike[("job-3",)]["fingerprint"] == fingerprint("Timeout", timeout[0], "")

    @pytest.mark.parametrize(
        "message",
        [
            "é0x7f3a gone",
            "größe0123456789abcdef",
            "日本0xff",
            "ID 0XFF, 0xffé",
            "at\u00a0 \u2003 0b0c7a52-5a0e-4f0e-9c79-0a8f7f7c0a11x",
            "٣ of 3\v\f\x1c pages",
        ],
    )
    def test_java_reads_letters_of_all_alphabets_the_same_way(self, spark, message):
        row = spark.createDataFrame([(message,)], "message string")

        [(found,)] = row.select(error_groups.normalised(F.col("message"))).collect()

        assert found == normalize_message(message)

    def test_parts_add_up(self, alike):
        assert sorted(row["jobs"] for row in alike.values()) == [2, 2, 4, 4]


def at_nine(at):
    return 720 if at.hour == 9 and at.weekday() < 5 else 0


def twice_as_many(at):
    return at_nine(at) * (2 if at >= LAST - datetime.timedelta(days=7) else 1)


def on_one_night(at):
    return 100 if at.day == 11 and at.hour == 3 else 0


LAST = MONDAY + datetime.timedelta(days=21)

LIVED = {
    "steady": (21, at_nine),
    "growing": (14, twice_as_many),
    "once": (14, on_one_night),
    "of days": (2, at_nine),
    "of hours": (23 / 24, lambda at: 5),
    "of an hour": (1 / 24, lambda at: 5000),
}
"""Queues: for how many days they have been, and how many jobs an hour of them has."""


@pytest.fixture(scope="module")
def hours(spark):
    """Each job is ten seconds of work; hours without jobs have no row, as in gold."""
    rows = []
    for queue, (days, jobs) in LIVED.items():
        first = LAST - datetime.timedelta(days=days)
        for hour in range(round(days * 24)):
            at = first + datetime.timedelta(hours=hour)
            if jobs(at) or not hour or at == LAST - datetime.timedelta(hours=1):
                rows.append(("default", queue, at, jobs(at), 10.0 * jobs(at)))
    schema = "tenant string, queue string, hour timestamp, enqueued long, busy_seconds double"
    return hourly_grid(spark.createDataFrame(rows, schema)).cache()


@pytest.fixture(scope="module")
def coming(hours):
    rows = forecast_week(hours).toArrow().to_pylist()
    return {queue: [row for row in rows if row["queue"] == queue] for queue in LIVED}


class TestHours:
    def test_the_busiest_hour_counts_quiet_weeks_too(self, hours):
        (top,) = busiest_hours(hours).where("rank = 1 and queue = 'once'").collect()

        assert (top["weekday"], top["hour_of_day"]) == (3, 3)
        assert (top["enqueued"], top["seen"]) == (50.0, 2)

    def test_a_week_is_like_the_weeks_before(self, coming):
        figures = coming["steady"]
        nine = [row for row in figures if row["enqueued"] > 0]

        assert len(figures) == 168
        assert {row["basis"] for row in figures} == {"week"}
        assert {(row["hour"].hour, row["hour"].weekday() < 5) for row in nine} == {(9, True)}
        assert [round(row["enqueued"]) for row in nine] == [720] * 5
        # 7,200 s of work in an hour are two handlers; three, if they may be busy for 70 %.
        assert {row["handlers"] for row in figures} == {0, 3}

    def test_it_begins_now_however_long_nothing_has_happened(self, hours):
        now = LAST + datetime.timedelta(hours=29, minutes=20)
        rows = forecast_week(hours.where("queue = 'steady'"), now).toArrow().to_pylist()
        nine = [row for row in rows if row["enqueued"] > 0]

        assert min(row["hour"] for row in rows) == LAST + datetime.timedelta(hours=30)
        assert len(rows) == 168
        assert {(row["hour"].hour, row["hour"].weekday() < 5) for row in nine} == {(9, True)}

    def test_it_grows_as_the_last_week_did(self, coming):
        # More of the last week than of the one before, and then twice as much again.
        most = max(row["handlers"] for row in coming["growing"])

        assert most > 2 * max(row["handlers"] for row in coming["steady"])

    def test_with_less_than_a_week_it_says_so(self, coming):
        assert {row["basis"] for row in coming["of days"]} == {"day"}

    @pytest.mark.parametrize("queue", ["of hours", "of an hour"])
    def test_with_less_than_a_day_it_has_no_figures(self, coming, queue):
        names = ("basis", "enqueued", "busy_seconds", "handlers")

        assert {tuple(row[name] for name in names) for row in coming[queue]} == {
            (TOO_LITTLE_DATA, None, None, None)
        }


HOURS_AND_WORK = {
    "within an hour": (4.5, 600.0, {4: 600}),
    "to the end of an hour": (4.0, 600.0, {3: 600, 4: 0}),
    "a whole hour": (4.0, 3600.0, {3: 3600, 4: 0}),
    "three hours": (4.5, 2.25 * 3600, {2: 2700, 3: 3600, 4: 1800}),
    "into the next day": (24.25, 1800.0, {23: 900, 24: 900}),
    "longer than any clock is right": (2000.5, 1e9, {2000: 1800, 1999: 3600, 1257: 3600}),
}
"""In which hour work ended, how many seconds it took, and how many of them lie in which hours."""


@pytest.mark.parametrize(("ended", "took", "expected"), HOURS_AND_WORK.values(), ids=HOURS_AND_WORK)
def test_work_is_spread_over_the_hours_in_which_it_was_done(spark, ended, took, expected):
    at = MONDAY + datetime.timedelta(hours=ended)
    step = ("t", "q", "k", 5, at, "complete", "processing", "completed", "claim", 1, took, took)
    columns = "tenant string, queue string, kind string, priority int, at timestamp, act string,"
    columns += "comes_from string, to string, before_act string, deliveries int, since double,"
    steps = spark.createDataFrame([step], f"{columns} age double")
    parts = finalize(partial(steps), ("day", "hour")).toArrow().to_pylist()

    since_monday = {(row["hour"] - MONDAY) / datetime.timedelta(hours=1): row for row in parts}
    assert {hour: round(since_monday[hour]["busy_seconds"]) for hour in expected} == expected
    assert all(row["day"] == row["hour"].date() for row in parts)
    whole = min(took, MAX_RUN_SECONDS)
    assert sum(row["busy_seconds"] for row in parts) == pytest.approx(whole)
    assert {hour for hour, row in since_monday.items() if row["completed"]} == {ended // 1}
    assert {hour for hour, row in since_monday.items() if row["run_p50"]} == {ended // 1}


def test_what_a_lost_worker_held_is_no_work(spark):
    begin = [
        ("enqueue", None, "queued", 0),
        ("claim", "queued", "processing", 1),
        ("expire", "processing", "queued", 41),
        ("claim", "queued", "processing", 42),
        ("complete", "processing", "completed", 45),
    ]
    rows = [
        ("t", "q", "a", "k", f"{number}", MONDAY + datetime.timedelta(seconds=at), act, source, to)
        for number, (act, source, to, at) in enumerate(begin)
    ]
    columns = "tenant string, queue string, id string, kind string, place string, at timestamp,"
    steps = spark.createDataFrame(rows, f"{columns} act string, source string, to string")
    figures = {"attempt": 1, "token": 7, "worker": "w", "note": "", "priority": 5}
    steps = timed_steps(steps.withColumns({name: F.lit(value) for name, value in figures.items()}))

    [life] = job_runs(steps).collect()
    [hour] = finalize(partial(steps), ("hour",)).collect()

    assert (life["busy_seconds"], life["run_seconds"], life["stalled_seconds"]) == (3.0, 3.0, 40.0)
    assert (hour["busy_seconds"], hour["run_max"], hour["stall_max"]) == (3.0, 3.0, 40.0)


def test_objectives_go_by_queue_and_by_default(spark):
    rows = [(queue, float(n)) for queue in ("own", "other", "none") for n in range(1, 101)]
    waits = spark.createDataFrame(rows, "queue string, s double")
    traffic = waits.groupBy("queue").agg(sketch(F.col("s")).alias("wait"))

    found = attainment(traffic, ["queue"], {"own": 99.0, "*": 50.0}).collect()
    named = attainment(traffic, ["queue"], {"own": 99.0}).collect()

    assert {row["queue"]: (row["attained"], row["kept"]) for row in found} == {
        "own": (0.99, True),
        "other": (0.5, False),
        "none": (0.5, False),
    }
    assert [row["queue"] for row in named] == ["own"]


def test_a_life_that_another_one_follows_is_over(spark):
    """Its end fell into a gap; of one that is followed by none, it may still come."""
    entries = [
        ("a", "01", "enqueue", None, "queued"),
        ("a", "02", "claim", "queued", "processing"),
        # Here it was completed and pruned, which nobody has read.
        ("a", "05", "enqueue", None, "queued"),
        ("b", "03", "claim", "queued", "processing"),
        ("b", "06", "move", None, "failing"),
        ("c", "04", "enqueue", None, "scheduled"),
        ("d", "07", "fail", "processing", "failed"),
        ("d", "08", "redrive", "failed", "queued"),
        ("d", "09", "purge", "queued", None),
    ]
    rows = [
        ("t", "q", id, "k", place, MONDAY, act, source, to, 1, 7, "", "", 5)
        for id, place, act, source, to in entries
    ]
    columns = "tenant string, queue string, id string, kind string, place string, at timestamp,"
    columns += "act string, source string, to string, attempt int, token long, worker string,"
    steps = timed_steps(spark.createDataFrame(rows, f"{columns} note string, priority int")).cache()

    over = job_runs(steps.where("not goes_on")).collect()

    assert {(row["id"], row["start_cursor"], row["outcome"]) for row in over} == {
        ("a", "01", "unknown"),
        ("b", "03", "unknown"),
        ("d", "07", "failed"),
        ("d", "08", "purged"),
    }
    assert {row["place"] for row in open_jobs(steps).collect()} == {"04", "05", "06"}
    steps.unpersist()
