"""What the guides show runs, from top to bottom, and the table of findings is complete."""

from __future__ import annotations

import contextlib
import io

import pytest

import ackline
from ackline.core.job import State
from ackline.spark.audit.findings import FINDINGS
from tests.docs.pages import DOCS, blocks_of

pytestmark = pytest.mark.ci

GUIDE = DOCS / "guides" / "spark.md"
CLUSTERS = DOCS / "guides" / "spark-clusters.md"

PLACES = ('"lake/', '"incoming"', '"rejected"', '"checkpoints/')
"""What the guide names in the directory where it is run: that of Spark is another one."""


def run_blocks(page, places, **names):
    """What a page shows, from top to bottom, in places that a test may use."""
    printed = io.StringIO()
    for block in blocks_of(page):
        if block.language == "py":
            text = block.text
            for shown, meant in places.items():
                text = text.replace(shown, meant)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, str(page), "exec"), names)
        elif block.mark == "prints":
            assert printed.getvalue().strip() == block.text.strip()
    return printed.getvalue()


def test_the_guide_runs(spark, sqlite_url, tmp_path):
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "rows.json").write_text(
        '{"id": "order-3", "payload": "{}"}\n{"id": "order-4", "payload": "{"}'
    )
    places = {place: f'"{tmp_path}/{place[1:]}' for place in PLACES}

    run_blocks(GUIDE, {"sqlite:///jobs.db": sqlite_url, **places})

    with ackline.open(sqlite_url) as queues:
        assert queues["email"].counts()[State.COMPLETED] == 5
        assert queues["letters"].result("order-1") == {"batch": 0}
    dead = spark.read.format("ackline").option("store", sqlite_url).load("dlq")
    assert dead.select("id", "error_message").collect() == [("order-2", "nobody of this name")]
    assert spark.read.parquet(f"{tmp_path}/lake/emails").count() == 5
    assert spark.read.parquet(f"{tmp_path}/lake/events").count() == 5
    assert spark.read.parquet(f"{tmp_path}/rejected").count() == 1


@pytest.mark.slow
def test_the_page_on_clusters_runs(spark, sqlite_url, tmp_path):
    places = {"redis://queues:6379": sqlite_url, "/Volumes/main/ops": str(tmp_path)}
    with ackline.open(sqlite_url) as queues:
        queues["email"].enqueue_many(range(5))

    printed = run_blocks(CLUSTERS, places, spark=spark)

    assert "5 events in" in printed


def test_the_guide_has_every_finding():
    text = GUIDE.read_text()

    assert all(f"| `{name}` | {meaning} |" in text for name, meaning in FINDINGS.items())
