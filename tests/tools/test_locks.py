"""The lock files have hashes for every supported Python and platform."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
LOCKS = sorted(REQUIREMENTS.glob("*.txt"))

PIN = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?P<rest>[^\n]*(?:\n +[^\n]*)*)",
    re.M,
)

# One file for every Python and platform: a wheel that runs anywhere, or only a source archive.
ONE_FILE = {"cronsim", "erlpack", "pyspark"}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_pin_has_the_hashes_of_all_its_files(lock: Path) -> None:
    incomplete = {name for name, _, hashes in pins(lock) if len(hashes) < 2}

    assert incomplete <= ONE_FILE


def test_locks_agree_on_the_files_of_a_version() -> None:
    hashes_by_version = defaultdict(set)
    for lock in LOCKS:
        for name, version, hashes in pins(lock):
            hashes_by_version[name, version].add(frozenset(hashes))

    assert [pin for pin, answers in hashes_by_version.items() if len(answers) > 1] == []


def pins(lock: Path) -> list[tuple[str, str, list[str]]]:
    """Each pinned package with its version and hashes."""
    return [
        (pin["name"], pin["version"], re.findall(r"sha256:([0-9a-f]{64})", pin["rest"]))
        for pin in PIN.finditer(lock.read_text())
    ]
