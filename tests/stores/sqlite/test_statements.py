"""The SQL itself: every statement compiles, and none of the hot ones scans a table."""

from __future__ import annotations

import re

import apsw
import pytest

from ackline.stores.sqlite.queries import sql, statements

HARMLESS = re.compile("VIRTUAL TABLE|CONSTANT ROW")

MAY_SCAN = {"all_counts", "queues", "queue_names", "last_batch", "read_all"}
"""They read a whole small table, or a range by its key."""


@pytest.mark.parametrize("name", sorted(statements()))
def test_no_statement_scans_jobs(store, name):
    writer = store._engine._writer
    plan = plan_of(writer, sql(name))

    scans = [step for step in plan if step.startswith("SCAN") and not HARMLESS.search(step)]
    assert name in MAY_SCAN or not scans, plan


@pytest.mark.parametrize("name", ["line", "due", "lapsed", "over", "list_line", "list_line_newest"])
def test_lines_are_read_in_order_without_sorting(store, name):
    plan = plan_of(store._engine._writer, sql(name))

    assert any("place_line" in step for step in plan)
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
