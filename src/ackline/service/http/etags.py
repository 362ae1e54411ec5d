"""ETags: unchanged documents are not sent again, changed ones not overwritten unseen.

A tag has two parts. The first changes with what clients can edit; `If-Match` compares only this
one. The second changes with everything else in the document; `If-None-Match` compares both.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, TypeVar

import msgspec
from litestar import Response
from litestar.datastructures import ResponseHeader
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter

from ackline.service.http.problems import ProblemError

T = TypeVar("T")

IfNoneMatch = Annotated[
    str | None,
    HeaderParameter(
        name="If-None-Match",
        description="The `ETag` that you have: 304 without a body if it still matches.",
    ),
]
IfMatch = Annotated[
    str | None,
    HeaderParameter(
        name="If-Match",
        description="The `ETag` that you read: 412, and nothing is done, if it has changed.",
    ),
]

ETAG_RESPONSES: dict[str, Any] = {
    "responses": {304: ResponseSpec(None, description="Not modified.")},
    "response_headers": [
        ResponseHeader(name="etag", documentation_only=True, description="Identifies this version.")
    ],
}
"""What a route with ETags declares for OpenAPI."""


class PreconditionFailed(ProblemError):
    """The document is no longer as the caller read it."""

    status = 412
    type = "changed"


def with_etag(
    document: T, editable: object, rest: object, if_none_match: str | None
) -> Response[T]:
    """A response with its ETag, or 304 if the caller already has this version."""
    tag = f'"{_hash(editable)}-{_hash(rest)}"'
    headers = {"etag": tag, "cache-control": "private, no-cache"}
    if if_none_match is not None and {"*", tag} & set(_tags(if_none_match)):
        return Response(None, status_code=304, headers=headers)  # type: ignore[arg-type]
    return Response(document, headers=headers)


def require_if_match(if_match: str | None, editable: object) -> None:
    """Refuse a change by a caller that read another version."""
    if if_match is None:
        return
    now = _hash(editable)
    if not any(tag == "*" or tag.strip('"').partition("-")[0] == now for tag in _tags(if_match)):
        raise PreconditionFailed(
            "it was changed since you read it; read it again and retry", at="If-Match"
        )


def has_specific_etag(if_match: str | None) -> bool:
    """Whether a change is meant for the version that the caller read, not for any."""
    return if_match is not None and "*" not in _tags(if_match)


def _tags(header: str) -> list[str]:
    return [tag.strip().removeprefix("W/") for tag in header.split(",")]


def _hash(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:16]
