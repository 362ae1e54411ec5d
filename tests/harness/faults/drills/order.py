"""How much a drill does, and where it writes."""

from __future__ import annotations

from pathlib import Path

import msgspec


class DrillOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How many faults, drawn by which seed, and where the histories are kept."""

    count: int
    folder: Path
    seed: int = 1
    lease: float = 1.0
