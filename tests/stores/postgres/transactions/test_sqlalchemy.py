"""Jobs in transactions of SQLAlchemy: Core, ORM sessions, and both on asyncio."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    scoped_session,
    sessionmaker,
)
from tests.stores.postgres.transactions.shop import Shop

from ackline import CannotJoin, Job, Queue, Queued
from ackline.aio import AsyncQueue, AsyncQueues
from ackline.core.job import State
from ackline.queues import Queues
from ackline.stores.postgres import PostgresStore


def url_of(shop: Shop, driver: str = "psycopg") -> sa.URL:
    with shop.connect() as connection:
        info = connection.info
        return sa.URL.create(
            f"postgresql+{driver}",
            username=info.user,
            database=info.dbname,
            query={"host": info.host, "port": str(info.port)},
        )


@pytest.fixture
def engine(shop: Shop) -> Iterator[sa.Engine]:
    engine = sa.create_engine(url_of(shop))
    yield engine
    engine.dispose()


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[str] = mapped_column(primary_key=True)
    paid: Mapped[bool] = mapped_column(default=False)


def orders(shop: Shop, engine: sa.Engine) -> sa.Engine:
    """The engine, with the model's table in the schema of this test."""
    schema = shop.table.partition(".")[0].strip('"')
    return engine.execution_options(schema_translate_map={None: schema})


# --- Core ---


def test_core_commits_and_rolls_back(shop: Shop, engine: sa.Engine) -> None:
    with engine.begin() as tx:
        tx.execute(sa.text(shop.insert("o-1")))
        assert shop.queue.enqueue({}, id="o-1", connection=tx) == Queued("o-1")
        assert shop.jobs() == set()
    with engine.connect() as tx:
        tx.execute(sa.text(shop.insert("o-2")))
        shop.queue.enqueue({}, id="o-2", connection=tx)
        tx.rollback()

    assert shop.jobs() == shop.orders() == {"o-1"}


def test_the_first_thing_on_a_connection_may_be_a_job(shop: Shop, engine: sa.Engine) -> None:
    """SQLAlchemy would not commit a transaction that it does not know to have begun."""
    with engine.connect() as tx:
        shop.queue.enqueue({}, id="o-1", connection=tx)
        assert tx.in_transaction()
        tx.commit()
    with engine.connect() as tx:
        shop.queue.enqueue({}, id="o-2", connection=tx)

    assert shop.jobs() == {"o-1"}


def test_jobs_go_with_their_savepoint(shop: Shop, engine: sa.Engine) -> None:
    with engine.begin() as tx:
        shop.queue.enqueue({}, id="stays", connection=tx)
        nested = tx.begin_nested()
        shop.queue.enqueue({}, id="goes", connection=tx)
        nested.rollback()
        tx.execute(sa.text(shop.insert("o-1")))

    assert (shop.jobs(), shop.orders()) == ({"stays"}, {"o-1"})


def test_core_claims_and_completes(shop: Shop, engine: sa.Engine) -> None:
    shop.queue.enqueue({}, id="o-1")
    with engine.begin() as tx:
        [job] = shop.queue.claim(connection=tx)
        tx.execute(sa.text(shop.insert("o-1")))
        job.complete("paid", connection=tx)

    assert (shop.orders(), shop.queue.result("o-1")) == ({"o-1"}, "paid")


def test_a_pooled_connection_comes_back_clean(shop: Shop, engine: sa.Engine) -> None:
    for n in range(5):
        with engine.begin() as tx:
            shop.queue.enqueue({}, id=str(n), connection=tx)
    with engine.connect() as tx:
        assert tx.exec_driver_sql("SHOW enable_seqscan").scalar() == "on"
        assert tx.execute(sa.text("SELECT count(*) FROM pg_prepared_statements")).scalar() == 0

    assert len(shop.jobs()) == 5
    assert engine.pool.status().count("Connections in pool: 1")


# --- ORM ---


def test_a_session_commits_objects_and_jobs_together(shop: Shop, engine: sa.Engine) -> None:
    with Session(orders(shop, engine)) as session:
        session.add(Order(id="o-1"))
        shop.queue.enqueue({}, id="o-1", connection=session)
        session.commit()
        session.add(Order(id="o-2"))
        shop.queue.enqueue({}, id="o-2", connection=session)
        session.rollback()

    assert shop.jobs() == shop.orders() == {"o-1"}


def test_a_failed_flush_rolls_the_job_back(shop: Shop, engine: sa.Engine) -> None:
    with Session(orders(shop, engine)) as session:
        session.add(Order(id="o-1"))
        session.commit()
        shop.queue.enqueue({}, id="again", connection=session)
        session.add(Order(id="o-1"))
        with pytest.raises(sa.exc.IntegrityError):
            session.flush()
        with pytest.raises(CannotJoin, match="SQLAlchemy"):
            shop.queue.enqueue({}, id="more", connection=session)
        session.rollback()

    assert (shop.jobs(), shop.orders()) == (set(), {"o-1"})


def test_a_scoped_session_is_accepted(shop: Shop, engine: sa.Engine) -> None:
    session = scoped_session(sessionmaker(orders(shop, engine)))
    session.add(Order(id="o-1"))
    shop.queue.enqueue({}, id="o-1", connection=session)
    session.commit()
    session.remove()

    assert shop.jobs() == shop.orders() == {"o-1"}


def test_a_handler_completes_in_its_session(shop: Shop, engine: sa.Engine, start: Any) -> None:
    @shop.queue.handler
    def pay(job: Job[Any]) -> None:
        with Session(orders(shop, engine)) as session, session.begin():
            session.add(Order(id=job.id, paid=True))
            job.complete("paid", connection=session)

    shop.queue.enqueue({}, id="o-1")
    start(shop.queue)

    assert shop.queue.result("o-1", timeout=30) == "paid"
    assert shop.paid() == {"o-1"}


# --- what cannot be joined ---


def test_autocommit_is_refused(shop: Shop, engine: sa.Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        with pytest.raises(CannotJoin, match="autocommit"):
            shop.queue.enqueue({}, connection=connection)
        assert not connection.in_transaction()


def test_a_failed_transaction_is_refused(shop: Shop, engine: sa.Engine) -> None:
    with engine.connect() as tx:
        with pytest.raises(sa.exc.DataError):
            tx.execute(sa.text("SELECT 1/0"))
        with pytest.raises(CannotJoin, match="roll it back"):
            shop.queue.enqueue({}, connection=tx)


def test_a_closed_connection_is_refused(shop: Shop, engine: sa.Engine) -> None:
    with engine.connect() as tx:
        pass
    with pytest.raises(CannotJoin, match="closed"):
        shop.queue.enqueue({}, connection=tx)


def test_another_driver_is_refused(shop: Shop) -> None:
    with (
        sa.create_engine("sqlite://").connect() as connection,
        pytest.raises(CannotJoin, match=r"sqlite\+pysqlite.*postgresql\+psycopg"),
    ):
        shop.queue.enqueue({}, connection=connection)


def test_an_engine_is_no_connection(shop: Shop, engine: sa.Engine) -> None:
    with pytest.raises(CannotJoin, match=r"sqlalchemy\.engine"):
        shop.queue.enqueue({}, connection=engine)


# --- asyncio ---


@asynccontextmanager
async def stage(shop: Shop, store: PostgresStore) -> AsyncIterator[tuple[Any, AsyncEngine]]:
    engine = create_async_engine(url_of(shop))
    queue: AsyncQueue[Any, Any] = AsyncQueues(Queues(store))["work"]
    try:
        yield queue, engine
    finally:
        await queue.close()
        await engine.dispose()


def test_async_core(shop: Shop, store: PostgresStore) -> None:
    async def main() -> None:
        async with stage(shop, store) as (queue, engine):
            async with engine.begin() as tx:
                assert isinstance(tx, AsyncConnection)
                await tx.execute(sa.text(shop.insert("o-1")))
                await queue.enqueue({}, id="o-1", connection=tx)
                assert shop.jobs() == set()
            async with engine.connect() as tx:
                await queue.enqueue({}, id="o-2", connection=tx)
                await tx.commit()
                [job] = await queue.claim(connection=tx)
                await queue.complete(job, "done", connection=tx)
                await tx.commit()
                await queue.enqueue({}, id="o-3", connection=tx)
                await tx.rollback()
                await queue.enqueue({}, id="o-4", connection=tx)

    asyncio.run(asyncio.wait_for(main(), 60))

    assert (shop.orders(), shop.jobs()) == ({"o-1"}, {"o-1", "o-2"})
    assert shop.queue.counts()[State.COMPLETED] == 1


def test_async_sessions(shop: Shop, store: PostgresStore) -> None:
    schema = shop.table.partition(".")[0].strip('"')

    async def main() -> None:
        async with stage(shop, store) as (queue, plain):
            engine = plain.execution_options(schema_translate_map={None: schema})
            async with AsyncSession(engine) as session:
                session.add(Order(id="o-1"))
                await queue.enqueue({}, id="o-1", connection=session)
                await session.commit()
                session.add(Order(id="o-2"))
                await queue.enqueue({}, id="o-2", connection=session)
                await session.rollback()
            scoped = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
            scoped.add(Order(id="o-3"))
            await queue.enqueue({}, id="o-3", connection=scoped)
            await scoped.commit()
            await scoped.remove()

    asyncio.run(asyncio.wait_for(main(), 60))

    assert shop.jobs() == shop.orders() == {"o-1", "o-3"}


def test_async_handlers_complete_in_their_session(
    shop: Shop, store: PostgresStore, start: Any
) -> None:
    queue: Queue[Any, Any] = shop.queue
    url, schema = url_of(shop), shop.table.partition(".")[0].strip('"')

    @queue.handler
    async def pay(job: Job[Any]) -> None:
        engine = create_async_engine(url)
        mapped = engine.execution_options(schema_translate_map={None: schema})
        async with AsyncSession(mapped) as session, session.begin():
            session.add(Order(id=job.id, paid=True))
            await job.complete("paid", connection=session)
        await engine.dispose()

    queue.enqueue({}, id="o-1")
    start(queue)

    assert queue.result("o-1", timeout=30) == "paid"
    assert shop.paid() == {"o-1"}


def test_async_connections_that_cannot_be_joined(shop: Shop, store: PostgresStore) -> None:
    async def main() -> None:
        async with stage(shop, store) as (queue, engine):
            async with engine.connect() as tx:
                with pytest.raises(CannotJoin, match=r"ackline\.aio"):
                    shop.queue.enqueue({}, connection=tx)
                await tx.execution_options(isolation_level="AUTOCOMMIT")
                with pytest.raises(CannotJoin, match="autocommit"):
                    await queue.enqueue({}, connection=tx)
            with pytest.raises(CannotJoin):
                await queue.enqueue({}, connection=tx)

    asyncio.run(asyncio.wait_for(main(), 60))

    assert shop.jobs() == set()
