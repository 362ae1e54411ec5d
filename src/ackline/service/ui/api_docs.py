"""The API documentation page, with all its files, so that it works offline."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Any

from litestar import Request, Response, Router
from litestar.params import PathParameter
from litestar.response import Redirect

from ackline.service.auth.guard import NO_AUTH
from ackline.service.http.problems import NotFound
from ackline.service.routes.decorators import get_or_head

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
def page(request: Request[Any, Any, Any]) -> Response[bytes] | Redirect:
    """The page."""
    if request.scope["raw_path"].partition(b"?")[0].endswith(b"/"):
        # With a trailing slash, the page's relative links would lead one level too deep.
        return Redirect(request.scope["path_template"])
    content = (files("ackline.service.ui") / "static" / "docs.html").read_bytes()
    return Response(content, media_type="text/html", headers=HEADERS)


@get_or_head("/{name:str}", include_in_schema=False, sync_to_thread=True)
def file(name: Annotated[str, PathParameter()]) -> Response[bytes]:
    """A file of the page."""
    if name not in FILES:
        raise NotFound(f"there is no {name}")
    content = (files("ackline.service.ui") / "static" / "swagger" / name).read_bytes()
    return Response(content, media_type=FILES[name], headers=HEADERS)


router = Router("/docs", route_handlers=[page, file], opt=NO_AUTH)
