"""HEAD: the status and headers of GET without the body, which is all that a probe wants."""

from __future__ import annotations

from typing import cast

from litestar.types import ASGIApp, Message, Receive, Scope, Send


class OmitHeadBody:
    """Wraps all routes: answers to HEAD, errors as well, are sent without their body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if cast("dict[str, object]", scope).get("method") != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = cast("Message", {**message, "body": b""})
            await send(message)

        await self._app(scope, receive, send_head)
