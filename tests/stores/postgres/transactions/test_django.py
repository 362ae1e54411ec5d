"""Jobs in transactions of Django."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections, models, transaction
from tests.stores.postgres.transactions.django_site import (
    database_of,
    forget_database,
    use_database,
)
from tests.stores.postgres.transactions.shop import Shop

from ackline import CannotJoin, Job
from ackline.core.job import State


@pytest.fixture(autouse=True)
def _site(shop: Shop) -> Iterator[None]:
    with shop.connect() as plain:
        use_database(database_of(plain.info))
    yield
    forget_database()


def insert(shop: Shop, id: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(shop.insert(id))


def order_model(shop: Shop) -> Any:
    """A model of the shop's table; defined here, because it needs settings."""

    class Order(models.Model):  # type: ignore[misc]
        id = models.TextField(primary_key=True)
        paid = models.BooleanField(default=False)

        class Meta:
            app_label = "shop"
            managed = False
            db_table = shop.table.replace(".orders", '."orders"')

    return Order


def test_an_atomic_block_commits_both(shop: Shop) -> None:
    with transaction.atomic():
        insert(shop, "o-1")
        shop.queue.enqueue({}, id="o-1", connection=connection)
        assert shop.jobs() == set()

    assert shop.jobs() == shop.orders() == {"o-1"}


def test_the_first_thing_in_a_block_may_be_a_job(shop: Shop) -> None:
    with transaction.atomic():
        shop.queue.enqueue({}, id="o-1", connection=connections["default"])

    assert shop.jobs() == {"o-1"}


def test_a_block_that_fails_leaves_neither(shop: Shop) -> None:
    def run() -> None:
        with transaction.atomic():
            insert(shop, "o-1")
            shop.queue.enqueue({}, id="o-1", connection=connection)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        run()

    assert shop.jobs() == shop.orders() == set()


def test_jobs_go_with_an_inner_block(shop: Shop) -> None:
    def inner() -> None:
        with transaction.atomic():
            shop.queue.enqueue({}, id="goes", connection=connection)
            raise RuntimeError

    with transaction.atomic():
        shop.queue.enqueue({}, id="stays", connection=connection)
        with pytest.raises(RuntimeError):
            inner()
        insert(shop, "o-1")

    assert (shop.jobs(), shop.orders()) == ({"stays"}, {"o-1"})


def test_models_and_callbacks_work_as_before(shop: Shop) -> None:
    order, called = order_model(shop), []
    with transaction.atomic():
        transaction.on_commit(lambda: called.append(shop.jobs()))
        order.objects.create(id="o-1")
        shop.queue.enqueue({}, id="o-1", connection=connection)
        assert list(order.objects.values_list("id", flat=True)) == ["o-1"]

    assert called == [{"o-1"}]
    assert shop.orders() == {"o-1"}


def test_claim_and_completion_in_one_block(shop: Shop) -> None:
    shop.queue.enqueue({}, id="o-1")
    with transaction.atomic():
        [job] = shop.queue.claim(connection=connection)
        insert(shop, job.id)
        job.complete("paid", connection=connection)

    assert (shop.orders(), shop.queue.result("o-1")) == ({"o-1"}, "paid")


def test_a_handler_completes_in_its_block(shop: Shop, start: Any) -> None:
    @shop.queue.handler
    def pay(job: Job[Any]) -> None:
        try:
            with transaction.atomic():
                insert(shop, job.id)
                job.complete("paid", connection=connection)
        finally:
            connection.close()

    shop.queue.enqueue({}, id="o-1")
    start(shop.queue)

    assert shop.queue.result("o-1", timeout=30) == "paid"
    assert shop.orders() == {"o-1"}


def test_outside_a_block_it_is_refused(shop: Shop) -> None:
    with pytest.raises(CannotJoin, match="atomic"):
        shop.queue.enqueue({}, connection=connection)

    assert shop.queue.counts()[State.QUEUED] == 0


def test_a_block_that_will_be_rolled_back_is_refused(shop: Shop) -> None:
    with transaction.atomic():
        with pytest.raises(DatabaseError), transaction.atomic(savepoint=False):
            connection.cursor().execute("SELECT 1/0")
        with pytest.raises(CannotJoin, match=r"roll"):
            shop.queue.enqueue({}, connection=connection)
        transaction.set_rollback(True)


def test_another_database_is_refused(shop: Shop) -> None:
    use_database({"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"})

    with transaction.atomic(), pytest.raises(CannotJoin, match="sqlite"):
        shop.queue.enqueue({}, connection=connection)
