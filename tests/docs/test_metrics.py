"""Metrics that the guides recommend for alerts."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT


def names_in(page: str) -> set[str]:
    return set(re.findall(r"`(ackline_\w+)", (ROOT / "docs" / "guides" / page).read_text()))


def test_both_guides_name_the_same_metrics() -> None:
    assert names_in("observing.md") == names_in("service.md") != set()
