"""The build in the package: small, whole, safe to serve, and made from these sources."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tools.dashboard_fingerprint import BUILD, FINGERPRINT_FILE, ROOT, SOURCES, fingerprint
from tools.openapi_document import as_text

TOOL = str(ROOT / "tools" / "dashboard")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`tools/dashboard`; or the test is skipped where there is no Node."""
    node = shutil.which("npm") or shutil.which("npm", path=str(ROOT / ".venv" / "bin"))
    if node is None:
        pytest.skip("no Node on PATH and none in .venv")
    return subprocess.run(
        [TOOL, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
        check=False,
    )


def zipped(pattern: str) -> int:
    return sum(len(gzip.compress(file.read_bytes(), 9)) for file in BUILD.glob(f"assets/{pattern}"))


def test_it_was_built_from_these_sources():
    assert FINGERPRINT_FILE.read_text().strip() == fingerprint(), "run tools/dashboard build"


def test_its_types_were_generated_from_this_api():
    document = hashlib.sha256(as_text().encode()).hexdigest()
    assert (SOURCES / "openapi.sha256").read_text().strip() == document, "run tools/dashboard types"


def contents(folder: Path) -> dict[str, bytes]:
    found = (
        file for file in folder.rglob("*") if file.is_file() and file.name != FINGERPRINT_FILE.name
    )
    return {str(file.relative_to(folder)): file.read_bytes() for file in found}


@pytest.mark.slow
def test_a_fresh_build_is_the_same_byte_for_byte(tmp_path: Path):
    assert run("install").returncode == 0
    fresh = tmp_path / "ackline" / "dashboard"
    shutil.copytree(SOURCES, fresh, ignore=shutil.ignore_patterns("node_modules"))
    (fresh / "node_modules").symlink_to(SOURCES / "node_modules")
    path = os.pathsep.join([os.environ["PATH"], str(ROOT / ".venv" / "bin")])
    made = subprocess.run(
        ["npm", "run", "build"],
        cwd=fresh,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert contents(fresh.parent / BUILD.relative_to(ROOT)) == contents(BUILD)


@pytest.mark.slow
def test_its_types_are_those_of_the_api(tmp_path: Path):
    made = run("types", str(tmp_path / "schema.d.ts"))
    assert made.returncode == 0, made.stderr
    kept = SOURCES / "src" / "api" / "schema.d.ts"
    assert (tmp_path / "schema.d.ts").read_text() == kept.read_text(), "run tools/dashboard types"


def test_its_units():
    made = run("test")
    assert made.returncode == 0, made.stdout + made.stderr


def test_it_is_small():
    assert zipped("*.js") <= 180_000
    assert zipped("*.css") <= 15_000


def test_it_needs_nothing_from_elsewhere():
    page = (BUILD / "index.html").read_text()
    assets = {f"/assets/{file.name}": file for file in (BUILD / "assets").iterdir()}
    named = set(re.findall(r'(?:src|href)="([^"]+)"', page))
    script = "".join(assets[name].read_text() for name in named if name.endswith(".js"))
    (worker,) = re.findall(r"/assets/stream-worker-[^\"'`]+\.js", script)
    assert named | {worker} == set(assets)
    assert "<style" not in page
    assert not re.search(r"<script[^>]*>[^<]", page), "an inline script"
    styles = "".join(file.read_text() for file in (BUILD / "assets").glob("*.css"))
    assert "http" not in styles
    assert "@import" not in styles


def test_no_address_of_a_registry_is_recorded():
    lock = (SOURCES / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert '"integrity"' in lock
