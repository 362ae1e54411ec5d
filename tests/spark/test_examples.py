"""The examples for Spark: the lake as a job for spark-submit."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import ackline

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"


@pytest.mark.slow
def test_the_lake_for_spark_submit(spark, sqlite_url, tmp_path, monkeypatch, capsys):
    with ackline.open(sqlite_url) as queues:
        queues["email"].enqueue_many(range(5))
    spec = importlib.util.spec_from_file_location("lake_example", EXAMPLES / "lake.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    # The session of all tests is the active one, and must stay.
    monkeypatch.setattr(type(spark), "stop", lambda self: None)

    example.main(sqlite_url, str(tmp_path / "lake"))

    assert "5 events in 1 batches" in capsys.readouterr().out
