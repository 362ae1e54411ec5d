"""Ackline on PostgreSQL: the same program as on every store."""

from __future__ import annotations

import dataclasses

from ackline_redis import Ackline
from shared import main


class AcklineOnPostgres(Ackline):
    about = dataclasses.replace(Ackline.about, packages=["ackline", "psycopg"])


if __name__ == "__main__":
    main(AcklineOnPostgres())
