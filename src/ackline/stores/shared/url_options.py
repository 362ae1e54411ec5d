"""The options in the query of a store's URL, and how they are read.

A reader takes an option's name and its text, and returns its value; for a mistake it raises
`ConfigError`, which says what would be right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ackline.core.errors import ConfigError

OptionParser = Callable[[str, str], object]


def parse_options(
    scheme: str, readers: Mapping[str, OptionParser], given: Iterable[tuple[str, str]]
) -> dict[str, object]:
    """Read all options, or say which one is not known."""
    found: dict[str, object] = {}
    for name, value in given:
        if name not in readers:
            raise ConfigError(f"{scheme} has no option {name!r}. Known: {', '.join(readers)}")
        found[name] = readers[name](name, value)
    return found


def parse_text(_name: str, value: str) -> str:
    """Anything.

    >>> text("sentinel_user", "ann")
    'ann'
    """
    return value


def parse_file(name: str, value: str) -> str:
    """The name of a file."""
    if not value:
        raise ConfigError(f"{name} must be the name of a file")
    return value


def parse_bool(name: str, value: str) -> bool:
    """`yes` or `no`.

    >>> yes("migrate", "no")
    False
    """
    return parse_choice("yes", "no")(name, value) == "yes"


def parse_choice(*words: str) -> Callable[[str, str], str]:
    """One of some words.

    >>> one_of("none", "everysec", "always")("durability", "always")
    'always'
    """

    def read(name: str, value: str) -> str:
        if value not in words:
            choice = f"{', '.join(words[:-1])} or {words[-1]}"
            raise ConfigError(f"{name} must be {choice}, not {value!r}")
        return value

    return read


def parse_int(least: int = 0, most: int | None = None) -> Callable[[str, str], int]:
    """A whole number.

    >>> whole(1, 1000)("connections", "10")
    10
    """
    limits = f" from {least} to {most}" if most is not None else ""

    def read(name: str, value: str) -> int:
        number = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else -1
        if number < least or (most is not None and number > most):
            raise ConfigError(f"{name} must be a whole number{limits}, not {value!r}")
        return number

    return read


def parse_seconds(name: str, value: str) -> float:
    """Seconds, less than an hour.

    >>> seconds("timeout", "2.5")
    2.5
    """
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < 3600:
        raise ConfigError(f"{name} must be seconds above zero and below 3600, not {value!r}")
    return number
