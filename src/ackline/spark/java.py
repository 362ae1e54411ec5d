"""Which Java Spark would run on, found without Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from ackline.errors import ConfigError

JAVA = (17, 21)
"""The versions that Spark 4 runs on."""


def require_java() -> None:
    """Refuse a machine without a Java that Spark runs on."""
    known = " or ".join(map(str, JAVA))
    java = _java()
    if java is None:
        raise ConfigError(
            f"Spark needs Java {known}, and none was found: install it (Debian: apt install "
            "openjdk-17-jre-headless; macOS: brew install openjdk@17), or name it in JAVA_HOME"
        )
    version = java_version(java)
    if version is not None and version < JAVA[0]:
        raise ConfigError(
            f"{java} is Java {version}, and Spark needs {known}: install that, or name it in "
            "JAVA_HOME"
        )


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        return str(program) if os.access(program, os.X_OK) else None
    return shutil.which("java")


def java_version(java: str) -> int | None:
    """The major version of a Java; None if it cannot be read."""
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(found[1]) if found else None
