from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.faults.scenario import Scenario

OpenScene = Callable[..., Scenario]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def open_scenario(url: str, tmp_path: Path) -> Iterator[OpenScene]:
    """Opens a scene on an empty store; every process in it has ended when the test has."""
    with ExitStack() as stack:
        yield lambda **details: stack.enter_context(
            Scenario(url, tmp_path / "histories", **details)
        )
