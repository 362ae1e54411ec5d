"""The Lua scripts: each is linked from its own file and the shared files that it includes."""

from __future__ import annotations

import functools
import hashlib
import re
from importlib.resources import files

import msgspec

from ackline.stores.redis.lua.linker import link_script

_INCLUDE = re.compile(r"^-- include (\S+)\n", re.MULTILINE)


class Script(msgspec.Struct, frozen=True):
    """The text of a script, and the hash by which a server knows it."""

    name: str
    text: str
    sha: str


@functools.cache
def script(name: str) -> Script:
    """The linked script of this name.

    >>> script("promote").name
    'promote'
    """
    own = _read(f"{name}.lua")
    text = link_script(map(_read, _INCLUDE.findall(own)), own)
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _read(path: str) -> str:
    return files(__package__).joinpath(path).read_text(encoding="utf-8")
