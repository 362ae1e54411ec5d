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


if __name__ == "__main__":
    json.dump(document(), sys.stdout, indent=1, sort_keys=True, ensure_ascii=False)
    print()
