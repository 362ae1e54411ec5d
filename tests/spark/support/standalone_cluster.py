"""A standalone cluster of Spark on loopback: a master and workers, each a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import pyspark

HOST = "127.0.0.1"

ROOT = Path(__file__).parents[3]


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


class Cluster:
    """Ends with its block, and with it all that it started."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._count = workers
        self._port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://{HOST}:{self._port}"

    def __enter__(self) -> Self:
        try:
            self._start("master.Master", "--port", str(self._port))
            self._wait()
            for _ in range(self._count):
                self._start("worker.Worker", "--cores", "1", "--memory", "700m", self.url)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, name: str, *arguments: str) -> None:
        program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        command = [program, f"org.apache.spark.deploy.{name}", "--host", HOST, "--webui-port", "0"]
        number = len(self._processes)
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": HOST,
            "SPARK_WORKER_DIR": str(self._folder / f"work-{number}"),
            "PYSPARK_PYTHON": sys.executable,
            # What travels to executors names what tests share.
            "PYTHONPATH": str(ROOT),
        }
        with (self._folder / f"log-{number}").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [*command, *arguments],
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def _wait(self) -> None:
        until = time.monotonic() + 120
        while time.monotonic() < until:
            try:
                socket.create_connection((HOST, self._port), 1).close()
                return
            except OSError:
                time.sleep(0.2)
        raise TimeoutError("the master did not come up")
