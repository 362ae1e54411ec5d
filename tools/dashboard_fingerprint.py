"""Record from which sources the dashboard in the package was built.

python -m tools.dashboard_fingerprint         prints the fingerprint of the sources
python -m tools.dashboard_fingerprint write   writes it into the build
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "dashboard"
BUILD = ROOT / "src" / "ackline" / "service" / "ui" / "static" / "dashboard"
FINGERPRINT_FILE = BUILD / "sources.sha256"

SETTINGS = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")


def fingerprint() -> str:
    """One hash over every file that the build depends on, without tests."""
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
        FINGERPRINT_FILE.write_text(f"{fingerprint()}\n")
    else:
        print(fingerprint())
