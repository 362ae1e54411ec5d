"""docs/redis-keys.md lists every key, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from tests.stores.redis.test_no_leftovers import run_varied_jobs

import ackline.stores.redis as package
from ackline.stores.contract import Topic

FOLDER = Path(package.__file__).parent
PAGE = Path(__file__).parents[3] / "docs" / "redis-keys.md"

LUA = "\n".join(path.read_text() for path in (FOLDER / "lua").rglob("*.lua"))
PYTHON = "\n".join(path.read_text() for path in [*FOLDER.glob("*.py"), *FOLDER.glob("io/*.py")])


def keys_in_scripts() -> set[str]:
    """What scripts add to a base name, as literals or by the name of a list."""
    code = re.sub(r"--.*", "", LUA)
    written_out = set(re.findall(r"'[:](\w+):?'", code))
    lists = re.search(r"^local LISTS = \{(.+)\}$", code, re.MULTILINE)
    assert lists
    return (written_out | set(re.findall(r"'(\w+)'", lists[1]))) - channels_in_scripts()


def channels_in_scripts() -> set[str]:
    """Those in addition to the topics."""
    return set(re.findall(r"'PUBLISH', queue\.base \.\. ':(\w+):'", LUA))


def keys_in_python() -> set[str]:
    return set(re.findall(r"\}:(\w+)\"", PYTHON)) - channels_in_python()


def channels_in_python() -> set[str]:
    return set(re.findall(r"(?:\.publish\(|_channel = )f\"\{[\w.]+\}:(\w+)\"", PYTHON))


def names_on_the_page(section: str) -> set[str]:
    """The names in the first column of the tables, after the prefix or the base name."""
    cells = re.findall(r"^\| (`.+?`) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`[^`]*?[PB}]:(\w+)[^`]*`", cell)}


def test_every_key_is_on_the_page_and_no_other():
    keys, _, _ = PAGE.read_text().partition("\n## Channels")

    assert names_on_the_page(keys) == keys_in_scripts() | keys_in_python()


def test_every_channel_is_on_the_page_and_no_other():
    _, _, channels = PAGE.read_text().partition("\n## Channels")

    assert names_on_the_page(channels) == {
        *get_args(Topic),
        *channels_in_python(),
        *channels_in_scripts(),
    }


def test_every_key_that_a_queue_leaves_is_on_the_page(timed, clock, client, prefix):
    run_varied_jobs(timed, clock, 0)

    base = f"{prefix}:"
    seen = {key.removeprefix(base).split("}:")[-1].split(":")[0] for key in client.keys(f"{base}*")}
    assert seen <= names_on_the_page(PAGE.read_text())
