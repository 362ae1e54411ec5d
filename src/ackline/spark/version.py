"""Which PySpark is needed, checked without anything that an older one does not have."""

from __future__ import annotations

from ackline.errors import ConfigError

SPARK = (4, 2)
"""The oldest version with what the format needs."""


def require_spark(version: str) -> None:
    """Refuse a Spark that is too old."""
    found = tuple(int(part) for part in version.split(".")[:2])
    if found < SPARK:
        needed = ".".join(map(str, SPARK))
        raise ConfigError(
            f"PySpark {version} is too old, {needed} is needed: pip install 'ackline[spark]'"
        )
