"""Cheap clients: wrk where it is installed, else a few lines of Python."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Act = Callable[["Connection"], Awaitable[int]]
"""Sends a request, and returns how many jobs it was for."""


class Connection:
    """One connection to the service, kept open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        """Connect."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))

    async def post(self, path: str, body: bytes) -> bytes:
        """Send a body; returns the answer, if it was accepted."""
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        self.writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        response = await self.reader.readuntil(b"\r\n\r\n")
        length = int(response.lower().partition(b"content-length:")[2].partition(b"\r")[0])
        answer = await self.reader.readexactly(length)
        if response[9:12] not in (b"200", b"201"):
            raise RuntimeError(answer.decode())
        return answer

    def close(self) -> None:
        """Disconnect."""
        self.writer.close()


def sender(path: str, body: Any, jobs: int = 1) -> Act:
    """Sends the same body each time."""
    data = json.dumps(body).encode()

    async def act(link: Connection) -> int:
        await link.post(path, data)
        return jobs

    return act


async def rate(port: int, connections: int, seconds: float, act: Act) -> tuple[float, float]:
    """Jobs per second, and the median of one request in milliseconds."""
    links = [await Connection.open(port) for _ in range(connections)]
    began = time.perf_counter()
    until, took, done = began + seconds, list[float](), 0

    async def run(link: Connection) -> None:
        nonlocal done
        while (start := time.perf_counter()) < until:
            jobs = await act(link)  # not added in one statement: others add meanwhile
            done += jobs
            took.append(time.perf_counter() - start)

    await asyncio.gather(*map(run, links))
    spent = time.perf_counter() - began
    for link in links:
        link.close()
    return done / spent, statistics.median(took) * 1000


async def requests(
    port: int, connections: int, seconds: float, path: str, body: Any
) -> tuple[float, float]:
    """Requests per second, all the same, and the median of one in milliseconds."""
    if shutil.which("wrk") is None:
        return await rate(port, connections, seconds, sender(path, body))
    return await asyncio.to_thread(_wrk, port, connections, seconds, path, body)


SCRIPT = """
wrk.method, wrk.body = "POST", [==[{body}]==]
wrk.headers["content-type"] = "application/json"
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format("RESULT %d %d %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), errors.status + errors.connect + errors.read + errors.timeout))
end
"""


def _wrk(port: int, connections: int, seconds: float, path: str, body: Any) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "post.lua"
        script.write_text(SCRIPT.replace("{body}", json.dumps(body)))
        options = ["-t1", f"-c{connections}", f"-d{max(1, round(seconds))}", "-s", str(script)]
        url = f"http://127.0.0.1:{port}{path}"
        output = subprocess.run(
            ["wrk", *options, url], capture_output=True, text=True, check=True
        ).stdout
    found = re.search(r"RESULT (\d+) (\d+) (\d+) (\d+)", output)
    if found is None or int(found[4]):
        raise RuntimeError(output)
    count, microseconds, median = int(found[1]), int(found[2]), int(found[3])
    return count / microseconds * 1e6, median / 1000
