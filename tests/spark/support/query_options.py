"""Options as a query would name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ackline.spark import option_parsing


def read_options(role: str, options: Mapping[str, str]) -> Any:
    """The options of one use of the format, of whichever kind they are."""
    return option_parsing.parse_options(role, options)
