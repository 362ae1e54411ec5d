"""The reference is up to date, and has every public name."""

import re

from tools.reference_pages.__main__ import outdated
from tools.reference_pages.api import public_names
from tools.reference_pages.markdown import fill

import ackline
from tests.docs.pages import DOCS, ROOT


def test_the_reference_is_up_to_date():
    stale = [str(file.relative_to(ROOT)) for file in outdated()]

    assert stale == [], "run tools/reference"


def test_only_text_between_the_markers_is_replaced():
    filled = fill("above\n<!-- a -->\nold\n<!-- /a -->\nbelow", "a", "new")

    assert filled == "above\n<!-- a -->\n\nnew\n\n<!-- /a -->\nbelow"


def test_the_public_names_are_sorted():
    assert ackline.__all__ == sorted(ackline.__all__)


def test_every_public_name_is_there_and_documented():
    page = (DOCS / "reference/ackline.md").read_text()
    headings = set(re.findall(r"^## (\w+)$", page, re.MULTILINE))

    assert headings == set(public_names(ackline))
    assert [name for name in ackline.__all__ if not getattr(ackline, name).__doc__] == []
