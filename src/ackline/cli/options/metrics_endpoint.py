"""Where a worker serves its metrics and health."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ackline.cli.exits import CommandError

if TYPE_CHECKING:
    from ackline.metrics import WorkerMetrics
    from ackline.metrics.endpoints import Source


class MetricsEndpoint(NamedTuple):
    """A port for /metrics, /livez and /readyz; or, in a child process, its supervisor's folder."""

    host: str
    port: int | None
    folder: Path | None

    @contextlib.contextmanager
    def of_one_process(self) -> Iterator[WorkerMetrics | None]:
        """Serve or publish the metrics of this process within the block, if that is wanted."""
        if self.port is None and self.folder is None:
            yield None
            return
        from ackline.metrics import WorkerMetrics
        from ackline.metrics.endpoints import MetricsPublisher, WorkerSource

        metrics = WorkerMetrics()
        with contextlib.ExitStack() as stack:
            if self.folder is not None:
                publisher = MetricsPublisher(metrics, self.folder, f"worker-{os.getpid()}")
                stack.callback(publisher.close)
            if self.port is not None:
                stack.enter_context(self._serve(WorkerSource(metrics), self.port))
            yield metrics

    @contextlib.contextmanager
    def of_supervisor(self) -> Iterator[list[str]]:
        """Serve the metrics of child processes within the block; yields the options they need."""
        if self.port is None:
            yield []
            return
        with tempfile.TemporaryDirectory(prefix="ackline-metrics-") as folder:
            from ackline.metrics.endpoints import SupervisorSource

            with self._serve(SupervisorSource(Path(folder)), self.port):
                yield ["--metrics-folder", folder]

    @contextlib.contextmanager
    def _serve(self, source: Source, port: int) -> Iterator[None]:
        from ackline.metrics.endpoints import MetricsServer

        try:
            server = MetricsServer(source, self.host, port)
        except OSError as error:
            raise CommandError(
                f"cannot serve metrics on {self.host}:{port}: {error.strerror or error}"
            ) from None
        try:
            yield
        finally:
            server.close()
