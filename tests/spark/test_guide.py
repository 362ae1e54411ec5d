"""What the guide shows runs, from top to bottom, and its table of findings is complete."""

from __future__ import annotations

import ackline
from ackline.job import State
from ackline.spark.pipelines.audit import MEANINGS
from tests.docs.pages import DOCS, blocks_of

GUIDE = DOCS / "guides" / "spark.md"


def test_the_guide_runs(spark, sqlite_url, tmp_path):
    # Spark has started in another directory than this test may use.
    places = {"sqlite:///jobs.db": sqlite_url, '"lake/': f'"{tmp_path}/lake/'}
    with ackline.open(sqlite_url) as queues:
        queues["email"].enqueue({"to": "eve"}, id="first")
        names = {"spark": spark}
        for block in blocks_of(GUIDE):
            if block.language == "py":
                text = block.text
                for shown, meant in places.items():
                    text = text.replace(shown, meant)
                exec(compile(text, str(GUIDE), "exec"), names)

        assert queues["email"].counts()[State.COMPLETED] == 3
        assert spark.read.parquet(f"{tmp_path}/lake/emails").count() == 3
        assert spark.read.parquet(f"{tmp_path}/lake/events").count() == 3


def test_the_guide_has_every_finding():
    text = GUIDE.read_text()

    assert all(f"| `{name}` | {meaning} |" in text for name, meaning in MEANINGS.items())
