"""The description of the API: OpenAPI 3.1, with examples and the errors that every route has."""

from __future__ import annotations

import copy
from collections.abc import Collection
from importlib.metadata import version
from typing import Any

import msgspec
from litestar import Request, Router
from litestar.handlers.http_handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.types import Method

from ackline.service import statuses
from ackline.service.auth.guard import OPEN
from ackline.service.bodies import Body
from ackline.service.examples import EXAMPLES
from ackline.service.streams import MEDIA_TYPE as STREAM
from ackline.service.streams import TICKET

DESCRIPTION = """A reliable job queue over HTTP.

*Messages*, *Dead letters* and *Keys* are the simple face, with times in milliseconds.
The routes below `v1` are the whole surface, with times in seconds and batches.
Every error is a problem detail (RFC 9457)."""

PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "description": "urn:ackline:problem: and a word."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What went wrong, and what to do."},
        "at": {"type": "string", "description": "The place in the body, or the parameter."},
        "state": {"type": "string", "description": "Where the job stands."},
        "cursor": {"type": "string", "description": "Where the kept events begin."},
    },
}

BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token (JWT) of an issuer that the service believes, or an API key.",
}
TICKET_PARAMETER = {
    "name": TICKET,
    "in": "query",
    "required": False,
    "schema": {"type": "string"},
    "description": "From `POST …/v1/tickets`, for browsers: an EventSource sends no header.",
}


class Description(JsonRenderPlugin):
    """Adds what all operations have in common."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        """The description as JSON."""
        return self.render_json(request, complete(openapi_schema))


def complete(described: dict[str, Any]) -> dict[str, Any]:
    """The description with problems and examples."""
    described = copy.deepcopy(described)
    components = described.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas |= _bodies(schemas) | {"Problem": PROBLEM}
    components["responses"] = statuses.responses()
    components["securitySchemes"] = {"bearer": BEARER}
    # The empty one: without auth, on this machine, no credentials are needed.
    described["security"] = [{"bearer": []}, {}]
    for path in described["paths"].values():
        path.pop("head", None)  # the same as `get`, as HTTP defines it
        for method, operation in path.items():
            if isinstance(operation, dict):
                _complete_operation(operation, method)
    return described


def _bodies(named: Collection[str]) -> dict[str, Any]:
    """The schemas of bodies, from msgspec, which reads them: it knows limits inside unions."""
    bodies = [body for body in _family(Body) if body.__name__ in named]
    _, schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    return {body.__name__: schemas[body.__name__] for body in bodies}


def _family(kind: type[Body]) -> list[type[Body]]:
    return [kind, *(body for below in kind.__subclasses__() for body in _family(below))]


def _complete_parameter(parameter: dict[str, Any]) -> None:
    """A parameter that may be left out can still not be null."""
    schema = parameter["schema"]
    match [choice for choice in schema.get("oneOf", ()) if choice != {"type": "null"}]:
        case [only]:
            del schema["oneOf"]
            schema |= only
        case _:
            return


def _complete_operation(operation: dict[str, Any], method: str) -> None:
    for parameter in operation.get("parameters", ()):
        _complete_parameter(parameter)
    operation["responses"].pop("400", None)  # Litestar's own format of errors
    for status in statuses.problems_of(operation, method):
        operation["responses"].setdefault(str(status), statuses.reference(status))
    if operation["operationId"] in statuses.OPEN_TO_ALL:
        operation["security"] = []
    if any(STREAM in answer.get("content", {}) for answer in operation["responses"].values()):
        operation.setdefault("parameters", []).append(TICKET_PARAMETER)
    example = EXAMPLES.get(operation["operationId"].removeprefix("v1_"))
    body = operation.get("requestBody")
    if example is not None and body is not None:
        body["content"]["application/json"]["example"] = example


def operation_id(handler: HTTPRouteHandler, method: Method, path: list[Any]) -> str:
    """A name for each operation: where it is, and what it does."""
    prefix = "v1_" if "v1" in path else ""
    module = handler.fn.__module__.rpartition(".")[2]
    name = f"{prefix}{module}_{handler.fn.__name__}"
    return f"{name}_head" if method == "HEAD" else name


def openapi_config(base: str) -> OpenAPIConfig:
    """Serve the description below the base path."""
    return OpenAPIConfig(
        title="Ackline",
        version=version("ackline"),
        description=DESCRIPTION,
        # Litestar also answers at the root of this router, and "/" is the dashboard's.
        openapi_router=Router(
            base or "/openapi.json", route_handlers=[], opt=OPEN, include_in_schema=False
        ),
        render_plugins=[Description(path="/openapi.json" if base else "/")],
        operation_id_creator=operation_id,
        use_handler_docstrings=True,
    )
