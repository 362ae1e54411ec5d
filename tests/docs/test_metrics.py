"""The names of metrics that the guides tell people to alert on."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT


def names_in(page: str) -> set[str]:
    return set(re.findall(r"`(ackline_\w+)", (ROOT / "docs" / "guides" / page).read_text()))


def test_the_guide_for_observers_has_the_names_of_the_service() -> None:
    assert names_in("observing.md") == names_in("service.md") != set()
