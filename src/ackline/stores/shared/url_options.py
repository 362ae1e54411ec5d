"""Parse the options in the query of a store's URL.

A parser takes the name and the text of an option and returns its value; for an invalid text it
raises `ConfigError`, which says what is valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ackline.core.errors import ConfigError

OptionParser = Callable[[str, str], object]


def parse_options(
    scheme: str, parsers: Mapping[str, OptionParser], given: Iterable[tuple[str, str]]
) -> dict[str, object]:
    """Parse all options; raises for one that is not known."""
    found: dict[str, object] = {}
    for name, value in given:
        if name not in parsers:
            raise ConfigError(f"{scheme} has no option {name!r}. Known: {', '.join(parsers)}")
        found[name] = parsers[name](name, value)
    return found


def parse_text(_name: str, value: str) -> str:
    """Any text.

    >>> parse_text("sentinel_user", "ann")
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

    >>> parse_bool("migrate", "no")
    False
    """
    return parse_choice("yes", "no")(name, value) == "yes"


def parse_choice(*words: str) -> Callable[[str, str], str]:
    """One of several words.

    >>> parse_choice("none", "everysec", "always")("durability", "always")
    'always'
    """

    def read(name: str, value: str) -> str:
        if value not in words:
            choice = f"{', '.join(words[:-1])} or {words[-1]}"
            raise ConfigError(f"{name} must be {choice}, not {value!r}")
        return value

    return read


def parse_int(minimum: int = 0, maximum: int | None = None) -> Callable[[str, str], int]:
    """A whole number.

    >>> parse_int(1, 1000)("connections", "10")
    10
    """
    limits = f" from {minimum} to {maximum}" if maximum is not None else ""

    def read(name: str, value: str) -> int:
        number = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else -1
        if number < minimum or (maximum is not None and number > maximum):
            raise ConfigError(f"{name} must be a whole number{limits}, not {value!r}")
        return number

    return read


def parse_seconds(name: str, value: str) -> float:
    """Seconds, up to an hour.

    >>> parse_seconds("timeout", "2.5")
    2.5
    """
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < 3600:
        raise ConfigError(f"{name} must be seconds above zero and below 3600, not {value!r}")
    return number
