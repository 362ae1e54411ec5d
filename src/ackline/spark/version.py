"""Which PySpark is needed, checked without anything that an older one does not have."""

from __future__ import annotations

from ackline.core.errors import ConfigError

MINIMUM_SPARK = (4, 2)
"""The oldest version with what the format needs."""


def require_spark(version: str) -> None:
    """Refuse a Spark that is too old."""
    found = tuple(int(part) for part in version.split(".")[:2])
    if found < MINIMUM_SPARK:
        needed = ".".join(map(str, MINIMUM_SPARK))
        raise ConfigError(
            f"PySpark {version} is too old, {needed} is needed: pip install 'ackline[spark]'"
        )
