"""What the shop does in the background."""

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from pydantic import BaseModel
from sqlalchemy.orm import Session

import ackline

from .database import Order, connect

logger = logging.getLogger("shop")
app = ackline.App()

PRICE = 7


class Receipt(BaseModel):
    order: str
    total: int


@app.lifespan
def resources() -> Iterator[dict[str, Any]]:
    engine = connect()
    try:
        yield {"engine": engine}
    finally:
        engine.dispose()


@app.middleware
def name_orders(job: ackline.Job, call_next: Callable[[], Any]) -> Any:
    logger.info("%s, attempt %d", job.id, job.attempt)
    return call_next()


@app.task(queue="orders", max_attempts=5, backoff=[1, 5, 30], timeout=timedelta(minutes=1))
def charge(order_id: str, *, engine: sa.Engine = ackline.resource()) -> Receipt:
    """Charge an order. It may run twice, and the second time changes nothing."""
    with Session(engine) as session:
        order = session.get_one(Order, order_id)
        receipt = Receipt(order=order.id, total=order.items * PRICE)
        order.paid = True
        email = order.email
        session.commit()
    send_receipt.options(id=f"receipt-{order_id}").enqueue(email, receipt)
    return receipt


@app.task(queue="email", max_attempts=10)
async def send_receipt(to: str, receipt: Receipt) -> str:
    return f"{to}: order {receipt.order} is paid, {receipt.total} EUR"


@app.every("@daily", tz="Europe/Berlin", queue="orders")
def count_unpaid(*, engine: sa.Engine = ackline.resource()) -> int:
    unpaid = sa.select(sa.func.count()).select_from(Order).where(Order.paid.is_(False))
    with Session(engine) as session:
        return session.scalars(unpaid).one()
