#!/usr/bin/env python3
"""Ackline and the field on one private Redis or Valkey server, in one run.

benchmarks/redis_field.py                                   everything; it sets itself up
benchmarks/redis_field.py --only ackline --only bullmq      these two
benchmarks/redis_field.py --markdown FILE --json FILE --plot FILE

docs/benchmarks.md says what each measure means.
"""

from field.command import compare, in_own_environment, options


def main() -> None:
    in_own_environment()
    # Only now: they need what is installed there.
    from field.entries import REDIS_FIELD
    from field.on_redis import DURABILITY, OnRedis

    parser = options(__doc__, REDIS_FIELD, usual_jobs=100_000)
    parser.add_argument("--durability", choices=[*DURABILITY], default="everysec")
    arguments = parser.parse_args()
    compare(arguments, OnRedis(arguments.durability), REDIS_FIELD)


if __name__ == "__main__":
    main()
