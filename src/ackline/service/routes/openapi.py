"""The OpenAPI 3.1 document, from the declarations of the route handlers."""

from __future__ import annotations

import copy
from collections.abc import Collection
from importlib.metadata import version
from typing import Any

import msgspec
from litestar import Request, Response, Router
from litestar.handlers.http_handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import Method

from ackline.service.auth.guard import NO_AUTH
from ackline.service.http.paths import prepare
from ackline.service.http.problems import NotFound
from ackline.service.http.request_body import Body
from ackline.service.routes.decorators import problem_responses

DESCRIPTION = """A reliable job queue over HTTP.

*Messages*, *Dead letters* and *Keys* are the simple routes, with times in milliseconds.
The routes below `v1` are the complete API, with batches, and times in seconds.
Every error is a problem detail (RFC 9457)."""

BEARER = SecurityScheme(
    type="http",
    scheme="bearer",
    description="A JWT of a configured issuer, or an API key.",
)

KEYS = "ackline.service.routes.keys"
"""The module whose routes exist twice: below the base path, and below `v1`."""


class OpenApiJson(JsonRenderPlugin):
    """Serves the document as completed by `complete_openapi`."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        """The document as JSON."""
        return self.render_json(request, complete_openapi(openapi_schema))


def complete_openapi(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what Litestar does not know about bodies, parameters and HEAD."""
    document = copy.deepcopy(document)
    schemas = document["components"]["schemas"]
    schemas |= _bodies(schemas)
    for path in document["paths"].values():
        path.pop("head", None)  # the same as `get`, as HTTP defines it
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                _complete_parameter(parameter)
    return document


def _bodies(named: Collection[str]) -> dict[str, Any]:
    """The schemas of bodies, from msgspec, which knows constraints inside unions."""
    bodies = [body for body in _subclasses(Body) if body.__name__ in named]
    _, schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    return {body.__name__: schemas[body.__name__] for body in bodies}


def _subclasses(body_type: type[Body]) -> list[type[Body]]:
    return [
        body_type,
        *(body for below in body_type.__subclasses__() for body in _subclasses(below)),
    ]


def _complete_parameter(parameter: dict[str, Any]) -> None:
    """Make an optional parameter not nullable."""
    schema = parameter["schema"]
    match [choice for choice in schema.get("oneOf", ()) if choice != {"type": "null"}]:
        case [only]:
            del schema["oneOf"]
            schema |= only
        case _:
            return


def operation_id(handler: HTTPRouteHandler, method: Method, path: list[Any]) -> str:
    """The function's name in camel case; generated clients use it, so renaming one breaks them."""
    first, *others = handler.fn.__name__.split("_")
    parts = [first, *map(str.capitalize, others)]
    if "v1" in path and handler.fn.__module__ == KEYS:
        parts.append("V1")
    if method == "HEAD":
        parts.append("Head")
    return "".join(parts)


def openapi_config(base: str) -> OpenAPIConfig:
    """Serve the document below the base path."""
    path = f"{base}/openapi.json"

    async def refuse_other_paths(request: Request[Any, Any, Any]) -> Response[None] | None:
        """Below it, Litestar answers with the document again, or a page of its own."""
        if request.scope["path_template"] != path:
            raise NotFound(f"there is no {request.scope['path']}")
        return await prepare(request)

    return OpenAPIConfig(
        title="Ackline",
        version=version("ackline"),
        description=DESCRIPTION,
        components=Components(responses=problem_responses(), security_schemes={"bearer": BEARER}),
        # The empty one: without auth, on this machine, no credentials are needed.
        security=[{"bearer": []}, {}],
        openapi_router=Router(
            path,
            route_handlers=[],
            opt=NO_AUTH,
            before_request=refuse_other_paths,
            include_in_schema=False,
        ),
        render_plugins=[OpenApiJson(path="/")],
        operation_id_creator=operation_id,
        use_handler_docstrings=True,
    )
