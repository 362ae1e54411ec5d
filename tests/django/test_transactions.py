"""Tasks that are enqueued in Django's transactions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction

from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.transactions.django_site import (
    database_of,
    forget_database,
    use_database,
)


class Rollback(Exception):
    """Rolls an atomic block back."""


@pytest.fixture
def database(
    postgres_server: PostgresServer, configure: Callable[..., None]
) -> Iterator[Callable[..., Any]]:
    """Makes PostgreSQL the project's database, and this the store of its tasks."""
    with postgres_server.connect() as plain:
        use_database(database_of(plain.info))

    def shop(url: str, **options: Any) -> Any:
        configure(url, **options)
        from tests.django import shop_tasks

        return shop_tasks

    yield shop
    forget_database()


def count(shop: Any) -> int:
    queues = shop.add.get_backend().app.queues
    return sum(queues["default"].counts().values())


def enqueue_and_roll_back(shop: Any) -> None:
    with contextlib.suppress(Rollback), transaction.atomic():
        shop.add.enqueue(1)
        raise Rollback


def test_a_task_is_part_of_the_transaction(
    database: Callable[..., Any], empty_store: Callable[[str], str]
) -> None:
    shop = database(empty_store("postgres"))

    with transaction.atomic():
        result = shop.add.enqueue(1)
        assert count(shop) == 0
    assert count(shop) == 1
    assert shop.add.get_result(result.id).args == [1]
    enqueue_and_roll_back(shop)
    assert count(shop) == 1
    shop.add.enqueue(1)
    assert count(shop) == 2


def test_in_another_store_a_task_is_enqueued_at_once(
    database: Callable[..., Any], empty_store: Callable[[str], str]
) -> None:
    shop = database(empty_store("sqlite"))

    enqueue_and_roll_back(shop)

    assert count(shop) == 1


def test_without_a_database_a_task_is_enqueued_at_once(
    database: Callable[..., Any], empty_store: Callable[[str], str]
) -> None:
    shop = database(empty_store("postgres"), database=None)

    enqueue_and_roll_back(shop)

    assert count(shop) == 1


def test_a_transaction_of_another_database_is_not_ignored(
    database: Callable[..., Any],
    empty_store: Callable[[str], str],
    postgres_server: PostgresServer,
) -> None:
    from django.core.exceptions import ImproperlyConfigured

    with postgres_server.connect() as plain:
        plain.execute("DROP DATABASE IF EXISTS elsewhere")
        plain.execute("CREATE DATABASE elsewhere")
    shop = database(empty_store("postgres").replace("/postgres?", "/elsewhere?"))

    with pytest.raises(ImproperlyConfigured, match="database"), transaction.atomic():
        shop.add.enqueue(1)

    assert count(shop) == 0
