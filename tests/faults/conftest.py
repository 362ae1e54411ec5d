from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.faults.scene import Scene

OpenScene = Callable[..., Scene]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def open_scene(url: str, tmp_path: Path) -> Iterator[OpenScene]:
    """Opens a scene on an empty store; every process in it has ended when the test has."""
    with ExitStack() as stack:
        yield lambda **details: stack.enter_context(Scene(url, tmp_path / "histories", **details))
