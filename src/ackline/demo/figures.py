"""The demo's figures: Spark in the background, fetched first if need be."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path

from ackline.demo.crew import Member, start_analyst
from ackline.errors import ConfigError
from ackline.spark.java import require_java

FIRST = 10.0
"""Seconds before Spark starts: first there must be some load to analyse."""

SIZE = "450 MB"
"""The size of the download."""


class Figures:
    """Makes figures for the analytics page; call `look` again and again.

    In a checkout without Spark, the checkout's tools fetch it; elsewhere it only tells what to
    install. Nothing else in the demo depends on it.
    """

    def __init__(
        self, store: str, path: Path, tell: Callable[[str], None], checkout: Path | None
    ) -> None:
        self.lake = path.with_suffix(".lake")
        self._store = store
        self._log = path.with_suffix(".spark.log")
        self._tell = tell
        self._checkout = checkout
        self._packages: Path | None = None
        self._member: Member | None = None
        self._next: Callable[[float], None] = self._begin

    def look(self, elapsed: float) -> None:
        """Take the next step, if it is time."""
        self._next(elapsed)

    def stop(self) -> None:
        """Kill Spark, whatever it is doing: a lake survives that."""
        self._next = self._rest
        if self._member is not None:
            self._member.kill()

    def _rest(self, _elapsed: float) -> None:
        """Do nothing any more."""

    def _begin(self, _elapsed: float) -> None:
        self._next = self._rest
        try:
            require_java()
        except ConfigError as error:
            self._tell(f"no figures on the analytics page: {error}")
            return
        if importlib.util.find_spec("pyspark") is not None:
            self._next = self._wait
        elif self._checkout is not None:
            self._fetch(self._checkout)
        else:
            self._tell("no figures on the analytics page: pip install 'ackline[spark]'")

    def _fetch(self, checkout: Path) -> None:
        program = [str(checkout / "tools" / "environment"), "spark"]
        if nice := shutil.which("nice"):
            program = [nice, *program]
        self._packages = checkout / ".venv" / "spark"
        self._member = Member(program, self._log)
        self._next = self._await_packages
        if not self._packages.exists():
            self._tell(f"Spark is fetched in the background, {SIZE}, once; --no-spark leaves it")

    def _await_packages(self, elapsed: float) -> None:
        assert self._member is not None
        match self._member.process.poll():
            case None:
                return
            case 0:
                self._wait(elapsed)
            case _:
                self._give_up("Spark could not be fetched")

    def _wait(self, elapsed: float) -> None:
        self._next = self._wait
        if elapsed >= FIRST:
            self._member = start_analyst(self._store, self.lake, self._packages, self._log)
            self._tell("Spark takes the journal into a lake, in the background")
            self._next = self._await_gold

    def _await_gold(self, elapsed: float) -> None:
        if (self.lake / "gold" / "forecast").is_dir():
            self._tell("the analytics page has figures, and gets new ones every half minute")
            self._next = self._watch
        else:
            self._watch(elapsed)

    def _watch(self, _elapsed: float) -> None:
        if self._member is not None and not self._member.alive:
            self._give_up("Spark has ended")

    def _give_up(self, problem: str) -> None:
        assert self._member is not None
        self._next = self._rest
        words = self._member.last_words().splitlines()[-1:] or ["no word why"]
        self._tell(f"{problem}, see {self._log}: {words[0]}")
