"""One fault made by hand, and the tests that must notice it."""

from __future__ import annotations

from typing import Literal, NamedTuple

Store = Literal["memory", "sqlite", "redis", "postgres", "spark"]
MODEL = "test_random_histories_do_not_differ_from_the_reference"


class Mutant(NamedTuple):
    """A change of one place in the source that must make a test fail."""

    name: str
    path: str
    """Below src/ackline."""
    scope: str
    """The function, class or SQL statement that has the place; empty where it is in none."""
    old: str
    new: str
    extra_tests: str = ""
    """The tests of a store of its own that show it, where no rule for all stores can."""

    @property
    def store(self) -> Store:
        """Which store shows it; the rules are the same for all, so memory will do."""
        if self.path.startswith("spark/"):
            return "spark"
        named: tuple[Store, ...] = ("sqlite", "redis", "postgres")
        return next((store for store in named if f"stores/{store}" in self.path), "memory")

    @property
    def stages(self) -> list[list[str]]:
        """The tests that it has to pass, those most likely to kill it first."""
        if self.store == "spark":
            # Whichever store is below, a stream does the same with it.
            return [[self.extra_tests, "-k", "not redis and not postgres"]]
        if self.extra_tests:
            return [[self.extra_tests]]
        conformance = [f"tests/conformance/test_{self.store}.py"]
        model = [f"tests/conformance/test_model.py::{MODEL}[{self.store}]"]
        core = ["tests/core"]
        if self.store != "memory":
            return [conformance, model]
        stages = [conformance, [*core, *model]]
        in_a_store = self.path.startswith("stores") or self.path == "lifecycle.py"
        return stages if in_a_store else stages[::-1]

    @property
    def test_timeout(self) -> float:
        """Seconds after which a test counts as hanging."""
        return 300.0 if self.store in ("postgres", "spark") else 60.0
