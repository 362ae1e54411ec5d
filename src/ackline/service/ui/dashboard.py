"""The dashboard: its page, for every view, and the page's assets."""

from __future__ import annotations

import functools
import gzip
import html
import mimetypes
from importlib.resources import files
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router
from litestar.di import NamedDependency
from litestar.params import PathParameter

from ackline.service.auth.guard import NO_AUTH
from ackline.service.http.problems import NotFound
from ackline.service.routes.decorators import get_or_head
from ackline.service.runtime import Runtime

PAGE_PATHS = ("queues", "workers", "events", "schedules", "keyspace", "analytics", "search")
"""The paths of the page's views: a link to any of them opens the page."""

SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "vary": "accept-encoding",
    "x-content-type-options": "nosniff",
}
PAGE_HEADERS = {"cache-control": "no-cache", **SECURITY_HEADERS}
ASSET_HEADERS = {"cache-control": "public, max-age=31536000, immutable", **SECURITY_HEADERS}
"""The names of assets contain their hashes, so they never change."""

BASE_META_TAG = b'name="ackline-base" content="/api"'
"""The meta tag from which the page reads the base path of the API."""

AnyRequest = Request[Any, Any, Any]


class Asset(msgspec.Struct, frozen=True):
    """An asset of the page, plain and compressed."""

    media_type: str
    plain: bytes
    compressed: bytes


@get_or_head(
    ["/", *(f"/{view}" for view in PAGE_PATHS), "/queues/{path:path}"], include_in_schema=False
)
async def page(request: AnyRequest, runtime: NamedDependency[Runtime]) -> Response[bytes]:
    """The page, which shows the view of its URL."""
    return _answer(request, _page(runtime.settings.base), PAGE_HEADERS)


@get_or_head("/assets/{name:str}", include_in_schema=False)
async def file(name: Annotated[str, PathParameter()], request: AnyRequest) -> Response[bytes]:
    """An asset of the page."""
    asset = _assets().get(name)
    if asset is None:
        raise NotFound(f"there is no {name}")
    return _answer(request, asset, ASSET_HEADERS)


async def _allow_any_query(_request: AnyRequest) -> None:
    """Filters in the URL are for the page, not for the service."""


def _answer(request: AnyRequest, asset: Asset, headers: dict[str, str]) -> Response[bytes]:
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers = {**headers, "content-encoding": "gzip"}
        return Response(asset.compressed, media_type=asset.media_type, headers=headers)
    return Response(asset.plain, media_type=asset.media_type, headers=headers)


@functools.cache
def _page(base: str) -> Asset:
    content = (files("ackline.service.ui") / "static" / "dashboard" / "index.html").read_bytes()
    escaped = html.escape(base).encode()
    return _file(
        "index.html", content.replace(BASE_META_TAG, BASE_META_TAG.replace(b"/api", escaped))
    )


@functools.cache
def _assets() -> dict[str, Asset]:
    folder = files("ackline.service.ui") / "static" / "dashboard" / "assets"
    return {asset.name: _file(asset.name, asset.read_bytes()) for asset in folder.iterdir()}


def _file(name: str, content: bytes) -> Asset:
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Asset(media_type, content, gzip.compress(content, mtime=0))


router = Router("/", route_handlers=[page, file], opt=NO_AUTH, before_request=_allow_any_query)
