"""The scripts: one for each verb, made of its own file and the shared files that it includes."""

from __future__ import annotations

import functools
import hashlib
import re
from importlib.resources import files

import msgspec

from ackline.stores.redis.lua.linker import link_script

_INCLUDE = re.compile(r"^-- include (\S+)\n", re.MULTILINE)


class Script(msgspec.Struct, frozen=True):
    """The text of a script, and the hash under which a server keeps it."""

    name: str
    text: str
    sha: str


@functools.cache
def script(name: str) -> Script:
    """The script of a verb.

    >>> script("promote").name
    'promote'
    """
    own = _read(f"{name}.lua")
    text = link_script(map(_read, _INCLUDE.findall(own)), own)
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _read(path: str) -> str:
    return files(__package__).joinpath(path).read_text(encoding="utf-8")
