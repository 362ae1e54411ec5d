"""The documentation page, whole: it works without a network."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated

from litestar import Response, Router
from litestar.params import PathParameter

from ackline.service.auth.guard import OPEN
from ackline.service.heads import get_or_head
from ackline.service.problems import NotFound

FILES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "start.js": "text/javascript",
    "favicon-32x32.png": "image/png",
}
HEADERS = {
    "cache-control": "max-age=3600",
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:",
    "x-content-type-options": "nosniff",
}


@get_or_head("/", include_in_schema=False, sync_to_thread=True)
def page() -> Response[bytes]:
    """The page."""
    content = (files("ackline.service") / "static" / "docs.html").read_bytes()
    return Response(content, media_type="text/html", headers=HEADERS)


@get_or_head("/{name:str}", include_in_schema=False, sync_to_thread=True)
def file(name: Annotated[str, PathParameter()]) -> Response[bytes]:
    """A file of the page."""
    if name not in FILES:
        raise NotFound(f"there is no {name}")
    content = (files("ackline.service") / "static" / "swagger" / name).read_bytes()
    return Response(content, media_type=FILES[name], headers=HEADERS)


router = Router("/docs", route_handlers=[page, file], opt=OPEN)
