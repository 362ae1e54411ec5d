"""The tables of the shop."""

import os

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[str] = mapped_column(primary_key=True)
    email: Mapped[str]
    items: Mapped[int]
    paid: Mapped[bool] = mapped_column(default=False)


def connect() -> sa.Engine:
    """Connect to the database that DATABASE_URL names, and create its tables."""
    engine = sa.create_engine(os.environ["DATABASE_URL"])
    Base.metadata.create_all(engine)
    return engine
