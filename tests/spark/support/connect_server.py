"""A server of Spark Connect on loopback, as a process of its own."""

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
from tests.spark.support.standalone_cluster import HOST, free_port

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SETTINGS = {
    "spark.connect.grpc.binding.address": HOST,
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


class ConnectServer:
    """Ends with its block, and with it all that it started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"sc://{HOST}:{self._port}"

    def __enter__(self) -> Self:
        program = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
        settings = {**SETTINGS, "spark.connect.grpc.binding.port": str(self._port)}
        options = [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
        command = [program, "--class", SERVER, "--master", "local[2]", *options, "spark-internal"]
        environment = {**os.environ, "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait(self._process)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + 120
        while time.monotonic() < until and process.poll() is None:
            try:
                socket.create_connection((HOST, self._port), 1).close()
                return
            except OSError:
                time.sleep(0.2)
        raise TimeoutError((self._folder / "log").read_text())
