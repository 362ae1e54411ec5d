"""What the guide shows runs, from top to bottom, and its table of findings is complete."""

from __future__ import annotations

import contextlib
import io

import ackline
from ackline.job import State
from ackline.spark.pipelines.audit import MEANINGS
from tests.docs.pages import DOCS, blocks_of

GUIDE = DOCS / "guides" / "spark.md"


PLACES = ('"lake/', '"incoming"', '"rejected"', '"checkpoints/')
"""What the guide names in the directory where it is run: that of Spark is another one."""


def test_the_guide_runs(spark, sqlite_url, tmp_path):
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "rows.json").write_text(
        '{"id": "order-3", "payload": "{}"}\n{"id": "order-4", "payload": "{"}'
    )
    names: dict[str, object] = {}
    printed = io.StringIO()
    for block in blocks_of(GUIDE):
        if block.language == "py":
            text = block.text.replace("sqlite:///jobs.db", sqlite_url)
            for place in PLACES:
                text = text.replace(place, f'"{tmp_path}/{place[1:]}')
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, str(GUIDE), "exec"), names)
        elif block.mark == "prints":
            assert printed.getvalue().strip() == block.text.strip()

    with ackline.open(sqlite_url) as queues:
        assert queues["email"].counts()[State.COMPLETED] == 5
    assert spark.read.parquet(f"{tmp_path}/lake/emails").count() == 5
    assert spark.read.parquet(f"{tmp_path}/lake/events").count() == 5
    assert spark.read.parquet(f"{tmp_path}/rejected").count() == 1


def test_the_guide_has_every_finding():
    text = GUIDE.read_text()

    assert all(f"| `{name}` | {meaning} |" in text for name, meaning in MEANINGS.items())
