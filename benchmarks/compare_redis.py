#!/usr/bin/env python3
"""Compare Ackline with other queues on one private Redis or Valkey server, in one run.

benchmarks/compare_redis.py                                 all queues; it sets itself up
benchmarks/compare_redis.py --only ackline --only bullmq    these two
benchmarks/compare_redis.py --markdown FILE --json FILE --plot FILE

docs/benchmarks.md says what each measure means.
"""

from comparison.command import compare, in_own_environment, options


def main() -> None:
    in_own_environment()
    # Only now: they need what is installed there.
    from comparison.queues import REDIS_QUEUES
    from comparison.redis_server import DURABILITY, RedisBenchmarkServer

    parser = options(__doc__, REDIS_QUEUES, usual_jobs=100_000)
    parser.add_argument("--durability", choices=[*DURABILITY], default="everysec")
    arguments = parser.parse_args()
    compare(arguments, RedisBenchmarkServer(arguments.durability), REDIS_QUEUES)


if __name__ == "__main__":
    main()
