"""ETags: what has not changed is not sent again, and what has is not overwritten unseen.

A tag has two parts. The first changes with what clients can edit: `If-Match` compares only this
one. The second changes with all else that the answer shows: `If-None-Match` compares both.
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
        description="The `ETag` of what you have: 304 without a body if it is still so.",
    ),
]
IfMatch = Annotated[
    str | None,
    HeaderParameter(
        name="If-Match",
        description="The `ETag` of what you saw: 412, and nothing is done, if it has changed.",
    ),
]

ETAG_RESPONSES: dict[str, Any] = {
    "responses": {304: ResponseSpec(None, description="It is as you have it.")},
    "response_headers": [
        ResponseHeader(name="etag", documentation_only=True, description="Which state this is.")
    ],
}
"""What a route declares if its answers have a tag."""


class PreconditionFailed(ProblemError):
    """It is no longer as the caller saw it."""

    status = 412
    type = "changed"


def with_etag(document: T, editable: object, rest: object, known: str | None) -> Response[T]:
    """A response with its tag, or 304 if the caller already has this."""
    tag = f'"{_hash(editable)}-{_hash(rest)}"'
    headers = {"etag": tag, "cache-control": "private, no-cache"}
    if known is not None and any(sent in ("*", tag) for sent in _tags(known)):
        return Response(None, status_code=304, headers=headers)  # type: ignore[arg-type]
    return Response(document, headers=headers)


def require_if_match(wanted: str | None, editable: object) -> None:
    """Refuse a change by someone who saw a different state."""
    if wanted is None:
        return
    now = _hash(editable)
    if not any(tag == "*" or tag.strip('"').partition("-")[0] == now for tag in _tags(wanted)):
        raise PreconditionFailed(
            "it has changed since you read it: read it again, then decide", at="If-Match"
        )


def has_specific_etag(wanted: str | None) -> bool:
    """Whether a change is only meant for what the caller saw, not for whatever is there."""
    return wanted is not None and "*" not in _tags(wanted)


def _tags(header: str) -> list[str]:
    return [tag.strip().removeprefix("W/") for tag in header.split(",")]


def _hash(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:16]
