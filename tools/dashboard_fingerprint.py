"""Which sources the dashboard in the package was built from.

python -m tools.dashboard_fingerprint         prints what they are now
python -m tools.dashboard_fingerprint write   notes it beside the build
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "dashboard"
BUILD = ROOT / "src" / "ackline" / "service" / "static" / "dashboard"
NOTE = BUILD / "sources.sha256"

SETTINGS = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")


def fingerprint() -> str:
    """One hash over every file that the build depends on; tests are left out."""
    files = [SOURCES / name for name in SETTINGS]
    files += [file for file in (SOURCES / "src").rglob("*") if file.is_file()]
    files = [file for file in files if ".test." not in file.name]
    whole = hashlib.sha256()
    for file in sorted(files):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        whole.update(f"{content}  {file.relative_to(SOURCES).as_posix()}\n".encode())
    return whole.hexdigest()


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        NOTE.write_text(f"{fingerprint()}\n")
    else:
        print(fingerprint())
