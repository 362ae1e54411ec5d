"""Print the OpenAPI document as JSON, without a server or a store."""

from __future__ import annotations

import json
import sys
from typing import Any

from ackline.service.app import create_routes
from ackline.service.routes.openapi import complete_openapi
from ackline.service.settings import Settings


def document() -> dict[str, Any]:
    """The document that `/api/openapi.json` serves."""
    return complete_openapi(create_routes(Settings(store="memory://")).openapi_schema.to_schema())


def as_text() -> str:
    """The document as `tools/openapi` prints it."""
    return json.dumps(document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(as_text())
