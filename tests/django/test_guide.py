"""The guide to Django runs where Django has tasks; elsewhere, tests/docs skips it."""

from __future__ import annotations

import pytest

from tests.docs.conftest import working_directory
from tests.docs.pages import DOCS
from tests.docs.test_snippets import test_a_page_runs_from_top_to_bottom as run_page

__all__ = ["working_directory"]


def test_the_guide_runs(working_directory, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(DOCS / "guides" / "django.md", working_directory, monkeypatch)
