"""Tables of the service: its routes and its problem types."""

from __future__ import annotations

import importlib
import json
from typing import Any

from tools.reference_pages.markdown import table


def routes() -> str:
    """Every route under the base path, by group."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for path, operations in _openapi()["paths"].items():
        for method, operation in operations.items():
            row = (f"`{method.upper()} {path}`", operation["summary"])
            groups.setdefault(operation["tags"][0], []).append(row)
    parts = [f"### {group}\n\n{table(('route', ''), rows)}" for group, rows in groups.items()]
    return "\n\n".join(parts)


def problems() -> str:
    """The status and type of each error."""
    module = importlib.import_module("ackline.service.http.problems")
    rows = [
        (str(status), f"`{word}`", f"`{error.__name__}`")
        for error, (status, word) in module.LIBRARY_ERRORS.items()
    ]
    importlib.import_module("ackline.service")  # its modules define more problems
    rows += [(str(kind.status), f"`{kind.type}`", "") for kind in _subclasses(module.ProblemError)]
    return table(("status", "type", "of the library"), sorted(rows))


def _subclasses(kind: Any) -> list[Any]:
    return [kind, *(each for below in kind.__subclasses__() for each in _subclasses(below))]


def _openapi() -> dict[str, Any]:
    """The OpenAPI document, as clients get it."""
    testing = importlib.import_module("litestar.testing")
    service = importlib.import_module("ackline.service")
    app = service.create_app(service.Settings(store="memory://"))
    with testing.TestClient(app, base_url="http://service.localhost") as client:
        document: dict[str, Any] = json.loads(client.get("/api/openapi.json").text)
    return document
