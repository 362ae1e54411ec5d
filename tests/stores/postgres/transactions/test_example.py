"""The example does what it says, and again when it is run again."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.harness.servers.postgres import PostgresServer

EXAMPLE = Path(__file__).parents[4] / "examples" / "outbox.py"


def test_every_order_is_paid_once(server: PostgresServer) -> None:
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, EXAMPLE],
            env={**os.environ, "DATABASE_URL": server.url},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

        assert run.returncode == 0, run.stderr
        said = re.fullmatch(r"(\d+) orders were placed, (\d+) were paid once\n", run.stdout)
        assert said is not None, run.stdout
        assert int(said[1]) == int(said[2]) > 0
