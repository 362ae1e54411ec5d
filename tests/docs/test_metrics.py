"""Metrics that the guides recommend for alerts."""

from __future__ import annotations

import re

from ackline.metrics import WorkerMetrics
from tests.docs.pages import ROOT

OF_WORKERS = "ackline_worker_"


def names_in(page: str) -> set[str]:
    return set(re.findall(r"`(ackline_\w+)", (ROOT / "docs" / "guides" / page).read_text()))


def test_both_guides_name_the_same_metrics_of_the_service() -> None:
    observing = {name for name in names_in("observing.md") if not name.startswith(OF_WORKERS)}
    assert observing == names_in("service.md") != set()


def test_the_guide_names_all_metrics_of_workers() -> None:
    found = {name for name in names_in("observing.md") if name.startswith(OF_WORKERS)}
    families = WorkerMetrics().collect()
    assert found == {
        f"{family.name}_total" if family.type == "counter" else family.name for family in families
    }
