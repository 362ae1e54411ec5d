"""What one request costs, counted: most producers enqueue one job at a time."""

from __future__ import annotations

from copy import copy
from unittest.mock import Mock
from urllib.parse import urlsplit

from tests.service.conftest import Api, client_for

from ackline.service.settings import Settings


def test_nothing_is_copied_or_parsed_again_per_request(monkeypatch):
    with client_for(Settings(store="memory://")) as client:
        api = Api(client, "/api")
        api.enqueue(1)
        copied, split = Mock(wraps=copy), Mock(wraps=urlsplit)
        # Litestar copies the handler for each guard.
        monkeypatch.setattr("litestar.handlers.base.copy", copied)
        monkeypatch.setattr("ackline.service.auth.authenticator.urlsplit", split)

        api.enqueue(2)

        assert (copied.call_count, split.call_count) == (0, 0)
