"""Reports: every section is there, and the page needs nothing else."""

from __future__ import annotations

import datetime
import html.parser
import re
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow
import pytest
from tests.docs.pages import DOCS, blocks_of
from tests.spark.support.job_histories import all_events
from tests.spark.support.sample_report import SUNDAY_NIGHT, shop_report

from ackline.cli.pipeline import report as report_command
from ackline.cli.pipeline.report import sparkline
from ackline.cli.session import CommonOptions, Session
from ackline.core.errors import ConfigError
from ackline.queues import Queues
from ackline.spark import schemas
from ackline.spark.journal.gaps import Gap, gap_ends
from ackline.spark.lake.batch_log import Batch
from ackline.spark.reports.charts import (
    axis_ticks,
    bar_chart,
    format_duration,
    format_short,
    heatmap,
    line_chart,
    round_up_axis,
)
from ackline.spark.reports.html_page import render_page
from ackline.spark.reports.report_data import (
    HOURLY_COLUMNS,
    QUEUE_KEY,
    Report,
    last_event_at,
    most_stalled,
    reported_days,
    with_quiet_hours,
)
from ackline.spark.reports.row_selection import (
    MAX_ROWS,
    SHOWN_ROWS,
    distinguishing_paths,
    select_traffic,
    with_traffic,
)
from ackline.spark.tables.event_rows import events_batch
from ackline.spark.transforms import traffic
from ackline.spark.transforms.job_runs import timed_steps
from ackline.spark.transforms.open_jobs import open_jobs
from ackline.spark.transforms.slo import attainment, include_overdue, overdue_jobs
from ackline.stores.memory import MemoryStore

NOON = datetime.datetime(2026, 11, 16, 12, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)


def quantiles(value):
    return {f"{what}_{q}": value for what in MEASURES for q in ("p50", "p90", "p99", "max")}


FORECAST = ("enqueued", "busy_seconds", "peak_handlers", "peak_hour")
MEASURES = ("wait", "run", "total", "stall", "recovery")


def traffic_row(**values):
    counts = dict.fromkeys(("enqueued", "claimed", "completed", "at_once"), 100)
    counts |= dict.fromkeys(("stalled", "released", "snoozed", "redriven", "retried"), 0)
    counts |= dict.fromkeys(("failed", "cancelled"), 0)
    rates = {"busy_seconds": 50.0, "retry_rate": 0.0, "failure_rate": None}
    names = {"tenant": "default", "queue": "email", "kind": "welcome", "priority": 5}
    return {**names, **counts, **rates, **quantiles(0.25), **values}


@pytest.fixture
def report():
    error = {
        "tenant": "default",
        "fingerprint": "abc",
        "exception": "ValueError",
        "message": "no <b>#</b>",
        "way": "mail.py:send",
        "jobs": 7,
        "first_at": NOON,
        "last_at": NOON,
        "places": ["email welcome"],
        "examples": [{"at": NOON, "id": "x-1", "message": "no", "traceback": "File <x>"}],
    }
    worker = {
        "tenant": "default",
        "queue": "email",
        "worker": "host-1",
        "deliveries": 100,
        "completed": 96,
        "errors": 2,
        "stalled": 2,
        "given_back": 0,
        "busy_seconds": 9.0,
        "last_at": NOON,
        "reliability": 0.98,
        "run_p50": 0.1,
        "run_p90": 0.1,
        "run_p99": 0.1,
    }
    slo = {
        "tenant": "acme",
        "queue": "email",
        "objective_seconds": 5.0,
        "target": 0.99,
        "deliveries": 100,
        "late": 31,
        "attained": 0.975,
        "kept": False,
    }
    coming = {"hour": NOON, "enqueued": 10.0, "busy_seconds": 100.0, "handlers": 3}
    peak = {"tenant": "default", "queue": "email", "basis": "week", "peak_hour": NOON}
    hour = {"hour": NOON, "enqueued": 10, "completed": 9, "failed": 1, "retried": 0, "stalled": 0}
    return Report(
        lake="/data/lake",
        store="/data/jobs.db",
        first_day=NOON.date(),
        last_day=NOON.date(),
        last_at=NOON - 2 * MINUTE,
        read_at=NOON - MINUTE,
        total=traffic_row(failed=7, stalled=2),
        hours=[{**hour, "busy_seconds": 1.0}, {**hour, "hour": NOON + datetime.timedelta(hours=1)}],
        traffic={
            "tenant": [traffic_row()],
            "queue": [traffic_row(), traffic_row(queue="<bills>", tenant="acme")],
            "kind": [traffic_row()],
            "priority": [traffic_row(priority=None, **quantiles(None))],
        },
        slo=[slo],
        errors=[error],
        stalled_queues=[traffic_row(queue="quiet", enqueued=1, stalled=2)],
        workers=[worker],
        busiest=[{"weekday": 1, "hour_of_day": 12, "enqueued": 10.0, "busy_seconds": 1.0}],
        forecast=[
            {**peak, "enqueued": 70.0, "busy_seconds": 1e5, "peak_handlers": 3},
            {**peak, "queue": "new", "basis": "too_little", **dict.fromkeys(FORECAST)},
        ],
        forecast_hours=[coming],
    )


class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []
        self.text = []
        self.links = []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "circle", "line", "rect", "polyline", "polygon"):
            self.open.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href")]

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if self.open[-1:] == [tag]:
            self.open.pop()

    def handle_data(self, data):
        self.text.append(data)


class TestPage:
    @pytest.fixture
    def text(self, report):
        return render_page(report, NOON)

    def test_it_is_well_formed_and_needs_nothing_else(self, text):
        reader = Reader()
        reader.feed(text)

        assert reader.open == []
        assert all(link.startswith("#") for link in reader.links)
        assert "<script" not in text
        assert not re.search(r"https?://|url\(|@import", text)
        assert "prefers-color-scheme: dark" in text

    @pytest.mark.parametrize(
        "output",
        [
            *(
                "Throughput",
                "Waiting and running",
                "Objectives",
                "Errors",
                "Workers",
            ),
            *("Expired leases and recovery", "Busiest hours", "The next week"),
            *("97.50%", "missed", "98.00%", "less than a day of data: new"),
        ],
    )
    def test_every_section_is_there(self, text, output):
        assert output in text

    def test_what_people_named_does_no_harm(self, text):
        assert "acme/&lt;bills&gt;" in text
        assert "<bills>" not in text
        assert "no &lt;b&gt;#&lt;/b&gt;" in text
        assert "File &lt;x&gt;" in text

    def test_nothing_to_tell_is_said(self, report):
        quiet = msgspec.structs.replace(report, errors=[], stalled_queues=[], workers=[], slo=[])
        text = render_page(quiet, NOON)

        assert "No jobs were moved to the DLQ." in text
        assert "No leases expired" in text

    def test_a_name_is_escaped_once(self, report):
        traffic = {name: [traffic_row(queue="a&b")] for name in report.traffic}
        reader = Reader()

        reader.feed(render_page(msgspec.structs.replace(report, traffic=traffic), NOON))

        shown = [text for text in reader.text if text.startswith("a&")]
        assert "a&b p99: 250 ms" in shown
        assert [text for text in shown if "&amp;" in text] == []

    def test_gaps_are_told_where_there_are_some(self, report, text):
        assert "Events are missing" not in text
        assert "Events are missing" in render_page(with_gap(report), NOON)
        assert "2026-11-16 12:00" in render_page(with_gap(report), NOON)
        assert "&lt;bills&gt;" in render_page(with_gap(report), NOON)


def with_gap(report):
    at = NOON.timestamp()
    gap = Gap(queue="<bills>", after="0.0", until="7.0", retained_from=at, skipped_at=at + 60)
    return msgspec.structs.replace(report, gaps=[gap])


def test_the_terminal_tells_of_gaps(report, capsys):
    session = Session(CommonOptions())
    session.console.width = 200
    report_command.show(session, report, NOON)
    assert "missing" not in capsys.readouterr().out

    report_command.show(session, with_gap(report), NOON)

    output = capsys.readouterr().out
    assert "Events are missing" in output
    assert "queue <bills>: events after cursor 0.0 up to 7.0" in output
    assert "skipped at 2026-11-16 12:01:00 UTC" in output


def test_the_guide_shows_what_the_terminal_does(capsys):
    session = Session(CommonOptions())
    session.console.width = 100
    guide = blocks_of(DOCS / "guides" / "reports.md")
    (shown,) = [block.text for block in guide if "Jobs per hour" in block.text]

    report_command.show(session, shop_report(), SUNDAY_NIGHT)

    output = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert [part for part in shown.split("\n…\n") if part.strip() not in output] == []


def looks(session, report, now):
    """What the terminal shows before the totals, with the codes of its colours."""
    with session.console.capture() as capture:
        report_command.show(session, report, now)
    return capture.get().partition("jobs enqueued")[0]


class TestFreshness:
    """A report on the last days must not be taken for one on the days before today."""

    def test_it_is_told(self, report, capsys):
        report_command.show(Session(CommonOptions()), report, NOON)
        output = "Last event 2026-11-16 11:58 UTC; last run 2026-11-16 11:59 UTC"

        assert output in capsys.readouterr().out
        assert f"<p>{output}.</p>" in render_page(report, NOON)

    def test_a_lake_without_anything_of_today_stands_out(self, report, monkeypatch):
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        tomorrow = NOON + datetime.timedelta(days=1)
        output = "No events since 2026-11-16 11:58 UTC; last run 2026-11-16 11:59 UTC"
        session = Session(CommonOptions())

        assert f"\x1b[33m{output}" in looks(session, report, tomorrow)
        assert "\x1b[33m" not in looks(session, report, NOON)
        assert f'<p class="bad">{output}.</p>' in render_page(report, tomorrow)

    def test_programs_are_told(self, report):
        built = msgspec.to_builtins(report)

        assert built["last_at"] == "2026-11-16T11:58:00Z"
        assert built["read_at"] == "2026-11-16T11:59:00Z"

    def test_the_last_event_is_not_that_of_a_wrong_clock(self):
        at = NOON.timestamp()
        batches = [batch(at - 60), batch(at), batch(at + 1e9), batch(at + 60, events=0)]

        assert last_event_at(batches, NOON) == NOON
        assert last_event_at(batches[2:], NOON).timestamp() == at + 1e9

    def test_a_report_of_one_day_is_headed_by_that_day(self, report, capsys):
        report_command.show(Session(CommonOptions()), report, NOON)

        assert capsys.readouterr().out.startswith("2026-11-16, UTC\n")
        assert "<title>Ackline report, 2026-11-16</title>" in render_page(report, NOON)


def batch(last_at, events=1):
    return Batch(number=0, events=events, ended=0, days=[], last_at=last_at)


class TestErrorsOfOneMessage:
    """They are different groups because they came by different paths through the code."""

    @pytest.fixture
    def ways(self, report):
        def with_ways(*ways):
            errors = [{**report.errors[0], "way": way} for way in ways]
            return msgspec.structs.replace(report, errors=errors)

        return with_ways

    def test_are_told_apart_by_their_last_function(self, ways, capsys):
        found = ways("run.py:run > mail.py:send", "run.py:run > mail.py:fetch<x>")
        session = Session(CommonOptions())
        session.console.width = 80

        report_command.show(session, found, NOON)

        output = capsys.readouterr().out
        assert "mail.py:send" in output
        assert "mail.py:fetch<x>" in output
        assert " in mail.py:send</code></summary>" in render_page(found, NOON)
        assert " in mail.py:fetch&lt;x&gt;</code></summary>" in render_page(found, NOON)

    def test_by_more_functions_where_the_last_is_the_same(self):
        alike = {"exception": "KeyError", "message": "'…'"}
        ways = ["a:one > b:get", "a:two > b:get", "b:get", ""]

        built = distinguishing_paths([{**alike, "way": way} for way in ways])

        assert built == ["a:one > b:get", "a:two > b:get", "b:get", "path unknown"]

    def test_a_message_of_its_own_needs_no_path(self, report, capsys):
        report_command.show(Session(CommonOptions()), report, NOON)

        assert "mail.py:send" not in capsys.readouterr().out


def test_jobs_that_were_redriven_since_are_not_said_to_be_in_the_dlq(report, capsys):
    report_command.show(Session(CommonOptions()), report, NOON)

    for output in (capsys.readouterr().out, render_page(report, NOON)):
        assert "failed for good" not in output
        assert "fills the DLQ" not in output
        assert "moved to the DLQ" in output
        assert "redriven since" in output


def stalls(text):
    return text.partition("Expired leases and recovery")[2].partition("Workers")[0]


def test_a_stall_is_told_of_a_queue_that_is_not_among_the_busiest(report, capsys):
    session = Session(CommonOptions())
    report_command.show(session, report, NOON)
    quiet = msgspec.structs.replace(report, stalled_queues=[])

    for output in (stalls(capsys.readouterr().out), render_page(report, NOON)):
        assert "quiet" in output
        assert "No leases expired" not in output
    report_command.show(session, quiet, NOON)
    assert "No leases expired." in stalls(capsys.readouterr().out)


def lose_a_worker(queue, clock):
    queue.enqueue(1)
    queue.claim(1, lease=30)
    clock.advance(31)
    queue.claim(1)


def test_stalls_are_gathered_from_every_queue(spark, clock):
    store = MemoryStore(clock)
    store.open()
    queues = Queues(store)
    for number in range(SHOWN_ROWS):
        queues[f"busy-{number}"].enqueue_many(range(2))
    lose_a_worker(queues["quiet"], clock)
    table = pyarrow.Table.from_batches([events_batch(all_events(queues))])
    steps = timed_steps(spark.createDataFrame(table, schemas.EVENTS))

    found = most_stalled(traffic.partial(steps)).collect()

    assert [(row["queue"], row["stalled"], row["stall_p50"]) for row in found] == [
        ("quiet", 1, 31.0)
    ]


def test_jobs_that_nobody_takes_count_as_late(spark, clock):
    """A queue that stands still has no delivery that could be judged."""
    store = MemoryStore(clock)
    store.open()
    queues = Queues(store)
    queues["stuck"].enqueue_many(range(3))
    queues["slow"].enqueue_many(range(4))
    queues["slow"].claim(2)
    queues["later"].enqueue(1, delay=3600)
    queues["unjudged"].enqueue(1)
    clock.advance(100)
    queues["young"].enqueue(1)
    queues["slow"].claim(1)
    table = pyarrow.Table.from_batches([events_batch(all_events(queues))])
    steps = timed_steps(spark.createDataFrame(table, schemas.EVENTS))
    objectives = {"stuck": 99.0, "slow": 60.0, "later": 1.0, "young": 1.0}

    attained = attainment(traffic.merge(traffic.partial(steps), QUEUE_KEY), QUEUE_KEY, objectives)
    now = datetime.datetime.fromtimestamp(clock.now(), datetime.UTC)
    late = overdue_jobs(open_jobs(steps), objectives, now, {})
    found = include_overdue(attained, late, objectives).collect()

    assert {row["queue"]: (row["deliveries"], row["late"], row["attained"]) for row in found} == {
        "stuck": (0, 3, 0.0),
        "slow": (3, 1, 0.5),
    }
    assert [row["kept"] for row in found] == [False, False]


def test_jobs_whose_claims_may_be_in_a_gap_do_not_count_as_late(spark, clock):
    store = MemoryStore(clock)
    store.open()
    queues = Queues(store)
    for name in ("whole", "with a gap"):
        queues[name].enqueue_many(range(3))
    until = store.info().cursor
    queues["with a gap"].enqueue(3)
    clock.advance(100)
    table = pyarrow.Table.from_batches([events_batch(all_events(queues))])
    open_ = open_jobs(timed_steps(spark.createDataFrame(table, schemas.EVENTS)))
    now = datetime.datetime.fromtimestamp(clock.now(), datetime.UTC)
    gaps = [Gap(queue="with a gap", after=cursor, until=cursor) for cursor in ("0.0", until)]

    late = overdue_jobs(open_, {"*": 60.0}, now, gap_ends(gaps)).collect()

    assert {row["queue"]: row["late"] for row in late} == {"whole": 3, "with a gap": 1}


def test_the_terminal_shows_it(report, capsys):
    report_command.show(Session(CommonOptions()), report, NOON)

    output = capsys.readouterr().out
    for text in (
        "By queue",
        "Objectives",
        "97.50%",
        "ValueError",
        "email welcome",
        "98.00%",
        "the last weeks",
        "with less than a day of data: new",
    ):
        assert text in output
    assert "unknown" in output


@pytest.mark.parametrize("width", [80, 110, 130])
def test_rows_keep_their_names_in_a_narrow_terminal(report, capsys, width):
    session = Session(CommonOptions())
    session.console.width = width
    long = {"queue": "mail-of-customers", "kind": "welcome-again", "enqueued": 12_345_678}
    traffic = {name: [traffic_row(**long)] for name in report.traffic}
    id = "01a1e962-4e44-7ce8-add2-1d1c1e1d0f10"
    errors = [{**one, "examples": [{"id": id}]} for one in report.errors]
    found = msgspec.structs.replace(report, traffic=traffic, errors=errors)

    report_command.show(session, found, NOON)

    output = capsys.readouterr().out
    assert id in output
    assert max(map(len, output.splitlines())) <= width
    for name in traffic:
        section = output.partition(f"By {name}\n")[2].partition("By ")[0]
        label = {"tenant": "default", "queue": "mail-of-customers", "kind": "welcome-again"}
        assert label.get(name, "5") in section
        assert "12,345,678" in section
        assert "wait p99" in section


def test_a_lake_in_which_nothing_happened_to_jobs(report, capsys):
    nothing = traffic_row(**dict.fromkeys(HOURLY_COLUMNS, 0), **quantiles(None))
    quiet = msgspec.structs.replace(
        report,
        total=nothing,
        hours=[],
        traffic={name: [] for name in report.traffic},
        **{name: [] for name in ("slo", "errors", "stalled_queues", "workers")},
        **{name: [] for name in ("busiest", "forecast", "forecast_hours")},
    )

    report_command.show(Session(CommonOptions()), quiet, NOON)

    assert "0 jobs enqueued" in capsys.readouterr().out
    assert "No leases expired" in render_page(quiet, NOON)


def many(report, number=SHOWN_ROWS + 5):
    """Busy queues, and at last a quiet one in which everything fails."""
    busy = [traffic_row(queue=f"busy-{at:02}", enqueued=1000 - at) for at in range(number - 1)]
    broken = traffic_row(queue="broken", enqueued=3, completed=0, failed=3, failure_rate=1.0)
    return msgspec.structs.replace(
        report,
        traffic={name: [*busy, broken] for name in report.traffic},
        **{name: getattr(report, name)[:1] * number for name in LISTS},
    )


LISTS = ("slo", "errors", "stalled_queues", "workers", "forecast")


def test_a_list_that_is_cut_says_how_many_more_there_are(report, capsys):
    long, more = many(report), "and 5 more: `ackline --json pipeline report` lists them"

    report_command.show(Session(CommonOptions()), long, NOON)

    assert capsys.readouterr().out.count(more) == len(report.traffic) + len(LISTS)
    more = "and 5 more: <code>ackline --json pipeline report</code> lists them"
    assert render_page(long, NOON).count(more) == 2 * len(report.traffic) + len(LISTS)


def test_a_list_that_is_whole_says_nothing(report, capsys):
    """The control, with as many rows as a list may have."""
    report_command.show(Session(CommonOptions()), many(report, SHOWN_ROWS), NOON)

    assert "more:" not in capsys.readouterr().out + render_page(many(report, SHOWN_ROWS), NOON)


def test_of_very_long_lists_not_all_rows_are_counted(report, capsys):
    report_command.show(Session(CommonOptions()), many(report, MAX_ROWS), NOON)

    assert f"and {MAX_ROWS - SHOWN_ROWS} or more: " in capsys.readouterr().out


def test_a_queue_with_failures_is_not_cut_before_one_without(report, capsys):
    shown = select_traffic(many(report).traffic["queue"])

    assert [row["queue"] for row in shown] == [
        *(f"busy-{at:02}" for at in range(SHOWN_ROWS - 1)),
        "broken",
    ]
    report_command.show(Session(CommonOptions()), many(report), NOON)
    assert "broken" in capsys.readouterr().out
    assert "broken" in render_page(many(report), NOON)


def test_where_everything_fails_is_shown_though_jobs_fail_in_every_queue():
    busy = [
        traffic_row(queue=f"busy-{at:02}", failed=50, failure_rate=0.05)
        for at in range(SHOWN_ROWS + 5)
    ]
    broken = traffic_row(queue="broken", enqueued=3, failed=3, failure_rate=1.0)

    assert select_traffic([*busy, broken]) == [*busy[: SHOWN_ROWS - 1], broken]


def test_failures_stand_out_on_the_page(report):
    red = '<td class="number"><span class="bad">100.0%</span></td>'

    assert render_page(many(report), NOON).count(red) == len(report.traffic)
    assert red not in render_page(report, NOON)


def test_a_chart_of_some_queues_says_so(report):
    assert "Wait time, the 12 busiest of 25 queues, on" in render_page(many(report), NOON)
    assert "Wait time, by queue, on" in render_page(report, NOON)


def test_rows_in_which_nothing_happened_are_left_out():
    """A job that was redriven with another priority is in none of the columns yet."""
    nothing = dict.fromkeys(("enqueued", "claimed", "completed", "at_once"), 0)
    redriven = traffic_row(priority=9, redriven=4, **nothing)
    taken = traffic_row(priority=8, **{**nothing, "claimed": 1})

    assert with_traffic([redriven, taken]) == [taken]


def test_queues_seen_for_less_than_a_day_are_named_without_empty_rows(report, capsys):
    row = report.forecast[1]
    unseen = [{**row, "queue": f"<new-{number}>"} for number in range(7)]
    young = msgspec.structs.replace(report, forecast=unseen, forecast_hours=[])

    report_command.show(Session(CommonOptions()), young, NOON)

    names = ", ".join(f"<new-{number}>" for number in range(5))
    output = f"No forecast yet, with less than a day of data: {names} and 2 more"
    week = capsys.readouterr().out.partition("The next week\n")[2]
    assert " ".join(week.split()) == output
    text = render_page(young, NOON).partition('<section id="forecast">')[2]
    assert html.escape(output) in text
    assert "<table>" not in text


def test_numbers_are_short():
    assert [round_up_axis(n) for n in (0, 0.3, 7, 130)] == pytest.approx([1.0, 0.4, 8.0, 200.0])
    assert [format_short(n) for n in (3, 999, 1500, 2e6)] == ["3", "999", "1.5k", "2M"]
    assert [format_duration(n) for n in (None, 0.004, 5, 600, 2e5)] == [
        "-",
        "4 ms",
        "5 s",
        "10 min",
        "2 d",
    ]


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7, 9, 12, 130, 2500])
def test_axes_of_counts_are_labelled_with_whole_numbers(most):
    found = axis_ticks(round_up_axis(most))

    assert found[-1] == round_up_axis(most)
    assert 2 <= len(found) <= 6
    assert all(value == int(value) and float(f"{value:.2g}") == value for value in found)


@pytest.mark.parametrize("hours", [1, 9, 15, 48, 24 * 20])
def test_labels_of_times_do_not_overlap(hours):
    times = [NOON + datetime.timedelta(hours=number) for number in range(hours)]
    plot = line_chart(times, [("enqueued", "one", [5] * hours)], "what")
    places = [float(x) for x in re.findall(r'class="label" x="([\d.]+)"', plot)]

    assert places
    assert all(after - before > 80 for before, after in pairwise(places))


def test_a_sparkline_shows_what_is_not_nothing():
    assert sparkline([0, 1, 1000]) == " ▁█"
    assert len(sparkline(list(range(1000)))) <= 72


def test_plots_of_nothing_are_empty():
    for plot in (line_chart([], [("x", "one", [])], "w"), heatmap({}, "w"), bar_chart([], "w")):
        assert plot.startswith("<figure>")
        assert plot.endswith("</figure>")


class Days:
    def __init__(self, *days):
        self.log = SimpleNamespace(batches=[type("B", (), {"days": [day]}) for day in days])
        self.folder = type("F", (), {"path": "here"})


def test_the_last_days_are_counted_back_from_the_last():
    day = NOON.date()
    days = Days(day, day - datetime.timedelta(days=1), day - datetime.timedelta(days=9))

    assert len(reported_days(days, None, day)) == 3  # type: ignore[arg-type]
    assert reported_days(days, 2, day) == [day - datetime.timedelta(days=1), day]  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is empty"):
        reported_days(Days(), None, day)  # type: ignore[arg-type]


def test_a_day_of_a_wrong_clock_is_not_the_last():
    day = NOON.date()
    yesterday, far = day - datetime.timedelta(days=1), day + datetime.timedelta(days=9000)
    days: Any = Days(yesterday, day, far)

    assert reported_days(days, 2, today=day) == [yesterday, day]
    assert reported_days(days, 2, today=yesterday) == [yesterday, day]
    assert reported_days(Days(far), 2, today=day) == [far]  # type: ignore[arg-type]


def hour(number, enqueued):
    return {"hour": NOON + datetime.timedelta(hours=number), "enqueued": enqueued}


def test_hours_in_which_nothing_happened_are_told():
    found = with_quiet_hours([hour(0, 5), hour(3, 7)])

    assert [(row["hour"].hour, row["enqueued"]) for row in found] == [
        (12, 5),
        (13, 0),
        (14, 0),
        (15, 7),
    ]
    assert found[1]["busy_seconds"] == 0
    assert with_quiet_hours([]) == []


def test_a_wrong_clock_does_not_fill_the_page():
    found = with_quiet_hours([hour(0, 5), hour(24 * 365 * 70, 7)])

    assert [row["enqueued"] for row in found] == [5, 0, 0, 7]


def test_the_first_hour_is_seen_though_it_is_no_line_yet():
    assert 'class="dot seen one"' in line_chart([NOON], [("enqueued", "one", [5])], "what")
    times = [NOON + datetime.timedelta(hours=number) for number in range(9)]
    assert "seen" not in line_chart(times, [("enqueued", "one", [5] * 9)], "what")
