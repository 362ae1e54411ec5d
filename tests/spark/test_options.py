"""Options are checked when a query is planned, and a mistake says what to do."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import StructField, StructType

import ackline
from ackline.core.errors import AcklineError, ConfigError, StoreUnavailable
from ackline.spark import schemas
from ackline.spark.data_source import AcklineSource
from ackline.spark.option_parsing import option_descriptions, parse_options
from ackline.spark.options import OPTIONS_BY_USE
from ackline.spark.store.address import StoreAddress, resolve_address
from pyspark_ackline import DefaultSource

CLAIMS = {"table": "jobs", "queue": "q", "streamId": "s"}


def asked(role="read", **options):
    return parse_options(role, {"store": "sqlite:///x.db", **options})


@pytest.mark.parametrize(
    ("role", "options", "words"),
    [
        ("read", {}, "no table"),
        ("read", {"table": "jbs"}, "'jobs'"),
        ("write", {"table": "JOBS"}, "'jobs'"),
        ("read", {"table": "outcomes"}, "'outcomes'"),
        ("read", {"table": "jobs", "pageSize": "0"}, "100,000"),
        ("read", {"table": "jobs", "pageSize": "many"}, "pageSize='many'"),
        ("read", {"table": "jobs", "maxEventsPerTrigger": "5"}, "readStream of events"),
        ("read", {"table": "events", "partitions": "x"}, "partitions='x'"),
        ("read", {"table": "jobs", "retryFor": "x"}, "retryFor='x'"),
        ("read", {"table": "jobs", "sharedFiles": "maybe"}, "true or false"),
        ("read", {"table": "jobs", "pagSize": "5"}, "'pageSize'"),
        ("read", {"table": "jobs", "tenant": ""}, "tenant"),
        ("read", {"table": "jobs", "streamid": "s"}, "readStream"),
        ("readStream", {**CLAIMS, "lease": "0.001"}, "0.01"),
        ("read", {"table": "jobs", "pushdown": "true"}, "createdAfter"),
        ("read", {"table": "events", "pushdown": "true"}, "happenedAfter"),
        ("read", {"table": "events", "acts": "fail,complet"}, "'complete'"),
        ("read", {"table": "events", "acts": "done"}, "enqueue"),
        ("read", {"table": "events", "kinds": ""}, "kind"),
        ("read", {"table": "events", "happenedAfter": "soon"}, "happenedAfter='soon'"),
        ("readStream", {"table": "events", "happenedBefore": "x"}, "happenedBefore='x'"),
        ("read", {"table": "jobs", "states": "queued,done"}, "'done'"),
        ("read", {"table": "jobs", "kinds": "a,"}, "kind"),
        (
            "read",
            {"table": "dlq", "createdAfter": "2030-01-02", "createdBefore": "2030-01-01"},
            "createdBefore",
        ),
        (
            "readStream",
            {"table": "events", "happenedAfter": "8", "happenedBefore": "7"},
            "happenedBefore",
        ),
        ("read", {"table": "jobs", "createdAfter": "soon"}, "createdAfter='soon'"),
        ("read", {"table": "jobs", "createdBefore": "nan"}, "createdBefore='nan'"),
        ("read", {"table": "dlq", "states": "queued"}, "'states'"),
        ("readStream", {**CLAIMS, "pageSize": "5"}, "'pageSize'"),
        ("readStream", {**CLAIMS, "streamId": ""}, "streamId"),
        ("readStream", {**CLAIMS, "keepFor": "inf"}, "keepFor"),
        ("readStream", {**CLAIMS, "retryFor": "inf"}, "retryFor"),
        ("readStream", {"table": "jobs", "queue": "q"}, "'streamId'"),
        ("readStream", {"table": "jobs", "streamId": "s"}, "'queue'"),
        ("readStream", {"table": "events", "start": "soon"}, "'oldest'"),
        ("readStream", {"table": "dlq"}, "jobs, events"),
        ("readStream", {**CLAIMS, "lease": "0"}, "lease='0'"),
        ("write", {"table": "jobs", "priority": "11"}, "11"),
        ("write", {"table": "jobs", "delay": "-1"}, "delay"),
        ("write", {"table": "jobs", "existing": "drop"}, "'replace'"),
        ("write", {"table": "jobs", "idFrom": "Content"}, "'content'"),
        ("write", {"table": "jobs", "delay": "x"}, "delay='x'"),
        ("write", {"table": "jobs", "maxAttempts": "0"}, "maxAttempts='0'"),
    ],
)
def test_a_mistake_says_what_is_wrong(role, options, words):
    with pytest.raises(AcklineError) as caught:
        asked(role, **options)

    assert words in str(caught.value)


def test_a_table_in_capitals_is_no_table():
    with pytest.raises(ConfigError, match="'jobs'"):
        AcklineSource({"store": "sqlite:///x.db", "path": "JOBS"}).schema()


def test_a_store_must_be_named():
    with pytest.raises(ConfigError, match="'store'"):
        parse_options("read", {"table": "jobs"})


def test_names_are_read_in_any_case_and_load_names_the_table():
    assert asked(path="jobs", PAGESIZE="7") == asked(table="jobs", pageSize="7")


# In the order of the table: every process that runs a share of the tests must count them alike.
@pytest.mark.parametrize(
    "kind", dict.fromkeys(kind for tables in OPTIONS_BY_USE.values() for kind in tables.values())
)
def test_every_option_says_what_it_means(kind):
    assert all(option_descriptions(kind).values())


def test_a_mistyped_queue_is_refused_and_not_made(sqlite_url, caplog):
    with ackline.open(sqlite_url) as queues:
        queues["email"].enqueue(1)
    given = {"store": sqlite_url, "queue": "emial"}
    jobs = AcklineSource({**given, "table": "jobs"})
    events = AcklineSource({**given, "table": "events"})

    for source in (jobs, events):
        with pytest.raises(ConfigError, match="'email'"):
            source.reader(source.schema())
    # A stream may begin before its queue does.
    events.streamReader(events.schema())

    assert "'email'" in caplog.text
    with ackline.open(sqlite_url) as queues:
        assert list(queues) == ["email"]


def test_columns_that_differ_are_refused_at_planning(sqlite_url):
    with ackline.open(sqlite_url) as queues:
        queues["mail"].enqueue(1)
    source = AcklineSource({"store": sqlite_url, "table": "events"})
    nullable = StructType([StructField(each.name, each.dataType) for each in source.schema()])

    for columns in (StructType(source.schema().fields[:3]), nullable):
        with pytest.raises(ConfigError, match="schema"):
            source.reader(columns)


def test_memory_is_refused():
    with pytest.raises(ConfigError, match="one process"):
        resolve_address(parse_options("read", {"store": "memory://", "table": "jobs"}))


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    options = parse_options("read", {"store": f"sqlite:///{tmp_path}/no.db", "table": "jobs"})

    with pytest.raises(StoreUnavailable, match="no store"):
        resolve_address(options)

    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ackline.open("sqlite:///a b.db").close()

    address = resolve_address(
        parse_options("read", {"store": "sqlite:///a%20b.db", "table": "jobs"})
    )

    monkeypatch.chdir("/")
    with address.open() as queues:
        assert list(queues) == []


def test_a_file_of_another_machine_is_refused(sqlite_url):
    ackline.open(sqlite_url).close()
    address = StoreAddress(url=sqlite_url, tenant="default", host="elsewhere")

    with pytest.raises(ConfigError, match="PostgreSQL"):
        address.connect()

    shared = StoreAddress(url=sqlite_url, tenant="default", host="elsewhere", shared_files=True)
    shared.connect().close()


def test_an_unreachable_server_is_told_at_planning():
    options = {"store": "redis://127.0.0.1:1/0", "table": "jobs"}

    with pytest.raises(StoreUnavailable):
        resolve_address(parse_options("read", options))


def test_spark_finds_the_format_by_the_name_of_its_module():
    assert DefaultSource is AcklineSource
    assert DefaultSource.name() == "ackline"


def test_kinds_with_commas_in_their_names_are_named_in_a_json_list():
    asked: Any = parse_options("read", {"store": "x", "table": "jobs", "kinds": '["a,b", "c"]'})

    assert asked.kinds_or_all == {"a,b", "c"}


def test_a_table_of_jobs_has_the_columns_that_are_asked_for(sqlite_url):
    ackline.open(sqlite_url).close()
    given = {"store": sqlite_url, "table": "dlq"}
    source = AcklineSource({**given, "columns": "state, id"})

    assert source.schema().names == ["id", "state"]
    assert source.reader(source.schema()) is not None
    with pytest.raises(ConfigError, match="id, state"):
        source.reader(schemas.JOBS)
    with pytest.raises(ConfigError, match="'state'"):
        AcklineSource({**given, "columns": "id,sate"}).schema()
