"""Write the parts of the documentation that come from the code or from measurements.

tools/reference            write them
tools/reference --check    exit with 1 if files are out of date, and list them
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.reference_pages import figures, service, settings
from tools.reference_pages.api import PAGES, api_page
from tools.reference_pages.cli import cli_page
from tools.reference_pages.markdown import fill
from tools.reference_pages.spark import spark_page

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"

PARTS = {
    "README.md": {"speed": figures.speed},
    "docs/benchmarks.md": {
        "bench": figures.bench,
        "compare huey": figures.compare_huey_sqlite,
        "compare redis": figures.compare_redis,
        "compare postgres": figures.compare_postgres,
        "held snapshot": figures.open_snapshot,
        "long drain": figures.long_drain,
        "spark": figures.spark,
        "service": figures.service,
    },
    "docs/configuration.md": {
        "policies": settings.policies,
        "settings": settings.settings,
        "numbers": settings.numbers,
    },
    "docs/errors.md": {"errors": settings.error_tree},
    "docs/http.md": {"routes": service.routes, "problems": service.problems},
    "docs/recovery.md": {"recovery": figures.recovery},
}
"""Pages written by hand, and what is inserted between their markers."""


def expected() -> dict[Path, str]:
    """Every generated file, with its expected text."""
    files = {REFERENCE / page.file: api_page(page) for page in PAGES}
    files[REFERENCE / "cli.md"] = cli_page()
    files[REFERENCE / "spark.md"] = spark_page()
    for name, parts in PARTS.items():
        text = (ROOT / name).read_text()
        for marker, make in parts.items():
            text = fill(text, marker, make())
        files[ROOT / name] = text
    return files


def outdated() -> list[Path]:
    """The files that differ from their expected text."""
    return [
        file for file, text in expected().items() if not file.exists() or file.read_text() != text
    ]


def main(arguments: list[str]) -> int:
    """Write the files, or check them."""
    if arguments not in ([], ["--check"]):
        print(__doc__)
        return 2
    stale = outdated()
    if arguments:
        for file in stale:
            print(f"{file.relative_to(ROOT)} is out of date: run tools/reference")
        return 1 if stale else 0
    texts = expected()
    for file in stale:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(texts[file])
        print(f"wrote {file.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
