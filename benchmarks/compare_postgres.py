#!/usr/bin/env python3
"""Compare Ackline with other queues on one private PostgreSQL server, in one run.

benchmarks/compare_postgres.py                                  all queues; it sets itself up
benchmarks/compare_postgres.py --only ackline --only pgqueuer   these two
benchmarks/compare_postgres.py --markdown FILE --json FILE --plot FILE

benchmarks/compare_postgres.py --held-snapshot    Ackline alone: does it slow down while another
                                                  session holds a snapshot open?
benchmarks/compare_postgres.py --long-drain 1200000   the same without, in a long run

docs/benchmarks.md says what each measure means.
"""

import argparse

from comparison.command import as_json, compare, end_with_signal, in_own_environment, options, write


def main() -> None:
    in_own_environment()
    # Only now: they need what is installed there.
    from comparison.postgres_server import PostgresBenchmarkServer
    from comparison.queues import POSTGRES_QUEUES

    parser = options(__doc__, POSTGRES_QUEUES, usual_jobs=100_000)
    parser.add_argument("--held-snapshot", action="store_true", help="during 500,000 jobs")
    parser.add_argument("--long-drain", type=int, metavar="JOBS", help="measure each tenth of them")
    arguments = parser.parse_args()
    if arguments.long_drain or arguments.held_snapshot:
        run_long_drain(arguments)
    else:
        compare(arguments, PostgresBenchmarkServer(), POSTGRES_QUEUES)


def run_long_drain(arguments: argparse.Namespace) -> None:
    from comparison import long_drain

    end_with_signal()
    measured = long_drain.run(
        arguments.long_drain or long_drain.JOBS, snapshot=arguments.held_snapshot
    )
    print(long_drain.text(measured))
    write(arguments.json, lambda: as_json(measured))
    write(arguments.markdown, lambda: long_drain.text(measured) + "\n")


if __name__ == "__main__":
    main()
