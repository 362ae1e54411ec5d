"""Every statement compiles, no frequent one scans a table, and few are open at a time."""

from __future__ import annotations

import re

import apsw
import pytest
from tests.stores.sqlite.conftest import QUEUE

from ackline.core.job import Draft
from ackline.stores.contract import ClaimRequest, Filter
from ackline.stores.sqlite import claim, queries, rows
from ackline.stores.sqlite.sql import sql, statements

HARMLESS = re.compile("VIRTUAL TABLE|CONSTANT ROW")

MAY_SCAN = {"all_counts", "queues", "queue_names", "last_batch", "all_heads"}
"""They read a whole small table, or a range by its key."""


@pytest.mark.parametrize("name", sorted(statements()))
def test_no_statement_scans_jobs(writer, name):
    plan = plan_of(writer, sql(name))

    scans = [step for step in plan if step.startswith("SCAN") and not HARMLESS.search(step)]
    assert name in MAY_SCAN or not scans, plan


@pytest.mark.parametrize(
    "name", ["read_list", "due", "lapsed", "past_retention", "list_jobs", "list_jobs_newest"]
)
def test_lists_are_read_in_order_without_sorting(writer, name):
    plan = plan_of(writer, sql(name))

    assert any("job_state_list" in step for step in plan)
    assert not any("TEMP B-TREE" in step for step in plan)


def plan_of(connection: apsw.Connection, statement: str) -> list[str]:
    values = (None,) * max(statement.count("?"), 9)
    for count in range(len(values), -1, -1):
        try:
            rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values[:count]).fetchall()
        except apsw.BindingsError:
            continue
        return [str(row[3]) for row in rows]
    raise AssertionError(statement)


MANY_KINDS = [Draft(f"id{n}", f"kind{n % 300}", b"") for n in range(900)]


@pytest.fixture
def opened(store, monkeypatch):
    """The lists that were opened."""
    store.enqueue(QUEUE, MANY_KINDS)
    lists = []

    def counted(heads, read, sort_key):
        def read_counted(list_id):
            lists.append(list_id)
            return read(list_id)

        return rows.merge_lists(heads, read_counted, sort_key)

    monkeypatch.setattr(claim, "merge_lists", counted)
    monkeypatch.setattr(queries, "merge_lists", counted)
    return lists


def test_a_claim_of_few_jobs_opens_few_of_many_kinds(store, opened):
    jobs = store.claim(QUEUE, ClaimRequest(worker="w", limit=5, lease=30.0)).jobs

    assert [job.id for job in jobs] == [f"id{n}" for n in range(5)]
    assert len(opened) <= 6


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_page_opens_few_of_many_kinds(store, opened, newest_first):
    expected = [draft.id for draft in MANY_KINDS][:: -1 if newest_first else 1]

    first = store.page(QUEUE, Filter(), None, 5, newest_first)
    second = store.page(QUEUE, Filter(), first.cursor, 5, newest_first)

    assert [job.id for job in first.jobs + second.jobs] == expected[:10]
    assert len(opened) <= 14


def test_a_page_of_one_kind_reads_only_its_list(store, opened):
    page = store.page(QUEUE, Filter(kinds=frozenset({"kind7"})), None, 100)

    assert [job.id for job in page.jobs] == ["id7", "id307", "id607"]
    assert len(opened) == 1
