"""The API of the shop."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

import sqlalchemy as sa
from fastapi import Depends, FastAPI, HTTPException, Request, status
from pydantic import BaseModel
from sqlalchemy.orm import Session

import ackline

from .database import Order, connect
from .tasks import Receipt, app, charge


class NewOrder(BaseModel):
    email: str
    items: int = 1


class Accepted(BaseModel):
    id: str


@asynccontextmanager
async def lifespan(api: FastAPI) -> AsyncGenerator[None]:
    api.state.engine = connect()
    try:
        async with app.open():
            yield
    finally:
        api.state.engine.dispose()


def engine_of(request: Request) -> sa.Engine:
    engine: sa.Engine = request.app.state.engine
    return engine


Engine = Annotated[sa.Engine, Depends(engine_of)]
api = FastAPI(lifespan=lifespan)


@api.post("/orders", status_code=status.HTTP_202_ACCEPTED)
def create(new: NewOrder, engine: Engine) -> Accepted:
    order = Order(id=uuid.uuid4().hex, email=new.email, items=new.items)
    accepted = Accepted(id=order.id)
    job = charge.options(id=f"charge-{order.id}")
    with Session(engine) as session:
        session.add(order)
        session.flush()
        if engine.dialect.name == "postgresql":
            job.options(connection=session).enqueue(order.id)
            session.commit()
        else:
            session.commit()
            job.enqueue(accepted.id)
    return accepted


@api.get("/orders/{id}/receipt")
async def read_receipt(id: str, wait: float = 0) -> Receipt:
    try:
        return await charge.aio.result(f"charge-{id}", wait)
    except ackline.JobNotFound:
        raise HTTPException(status.HTTP_404_NOT_FOUND) from None
    except ackline.Timeout:
        raise HTTPException(status.HTTP_425_TOO_EARLY) from None
    except ackline.JobFailed as error:
        raise HTTPException(status.HTTP_409_CONFLICT, str(error)) from None
