from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.faults.scenario import Scenario

OpenScenario = Callable[..., Scenario]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def open_scenario(url: str, tmp_path: Path) -> Iterator[OpenScenario]:
    """Opens a scenario on an empty store; all of its processes end with the test."""
    with ExitStack() as stack:
        yield lambda **details: stack.enter_context(
            Scenario(url, tmp_path / "histories", **details)
        )
