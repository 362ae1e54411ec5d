"""A bug written by hand, and the tests that must find it."""

from __future__ import annotations

from typing import Literal, NamedTuple

Store = Literal["memory", "sqlite", "redis", "postgres", "spark"]
MODEL = "test_random_histories_do_not_differ_from_the_reference"


class Mutant(NamedTuple):
    """A change of the source in one place, which must make a test fail."""

    name: str
    path: str
    """Below src/ackline."""
    scope: str
    """The function, class or SQL statement that contains the place; empty for the module."""
    old: str
    new: str
    extra_tests: str = ""
    """The tests that must fail, if the conformance suite and the model cannot show the bug."""

    @property
    def store(self) -> Store:
        """The store on which it is tested; memory for code that all stores share."""
        if self.path.startswith("spark/"):
            return "spark"
        named: tuple[Store, ...] = ("sqlite", "redis", "postgres")
        return next((store for store in named if f"stores/{store}" in self.path), "memory")

    @property
    def stages(self) -> list[list[str]]:
        """The tests to run, those most likely to kill it first."""
        if self.store == "spark":
            # Streams do the same on every store.
            return [[self.extra_tests, "-k", "not redis and not postgres"]]
        if self.extra_tests:
            return [[self.extra_tests]]
        conformance = [f"tests/conformance/test_{self.store}.py"]
        model = [f"tests/conformance/test_model.py::{MODEL}[{self.store}]"]
        core = ["tests/core"]
        if self.store != "memory":
            return [conformance, model]
        stages = [conformance, [*core, *model]]
        is_in_store = self.path.startswith("stores") or self.path == "core/lifecycle.py"
        return stages if is_in_store else stages[::-1]

    @property
    def test_timeout(self) -> float:
        """Seconds after which a test counts as hanging."""
        return 300.0 if self.store in ("postgres", "spark") else 60.0
