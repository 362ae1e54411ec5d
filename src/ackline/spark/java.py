"""Finds and checks the Java that Spark would run on, without starting Spark."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
from pathlib import Path

from ackline.core.errors import ConfigError

logger = logging.getLogger("ackline")

SUPPORTED_JAVA = "Java 17, 21 or 25"
"""The versions that Spark 4 is tested on, as in the documentation."""

TESTED_VERSIONS = (17, 21, 25)

CORRUPTING_FROM, CORRUPTING_FIXED_IN = (25,), (25, 0, 3)
"""In versions between these, the garbage collector may move what Spark reads (JDK-8377811)."""

Version = tuple[int, ...]


def require_java() -> None:
    """Refuse a machine without a Java that Spark runs on."""
    java = _find_java()
    if java is None:
        raise ConfigError(
            f"Spark needs {SUPPORTED_JAVA}, and none was found: install it (Debian: apt install "
            "openjdk-17-jre-headless; macOS: brew install openjdk@17), or name it in JAVA_HOME"
        )
    _require_version(java, java_version(java))


def _require_version(java: str, version: Version) -> None:
    found = f"{java} is Java {'.'.join(map(str, version))}"
    if version[0] < TESTED_VERSIONS[0]:
        raise ConfigError(
            f"{found}, and Spark needs {SUPPORTED_JAVA}: install that, or name it in JAVA_HOME"
        )
    if CORRUPTING_FROM <= version < CORRUPTING_FIXED_IN:
        raise ConfigError(
            f"{found}, which can damage data: update it to 25.0.3 or newer, or name another in "
            "JAVA_HOME"
        )
    if version[0] not in TESTED_VERSIONS:
        logger.warning("%s, on which Spark is not tested: prefer %s", found, SUPPORTED_JAVA)


def _find_java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        return str(program) if os.access(program, os.X_OK) else None
    return shutil.which("java")


def java_version(java: str) -> Version:
    """The version of a Java, such as (17, 0, 15); a program that reports none is refused."""
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    text = answer.stderr + answer.stdout
    # Up to Java 8, versions began with "1.", such as 1.8.
    found = re.search(r'version "(?:1\.)?(\d+(?:\.\d+)*)', text)
    if found is None:
        first = next(iter(text.strip().splitlines()), "nothing")
        raise ConfigError(
            f"{java} does not say which Java it is, but: {first}\n"
            f"Spark needs {SUPPORTED_JAVA}: install it, or name it in JAVA_HOME"
        )
    return tuple(map(int, found[1].split(".")))
