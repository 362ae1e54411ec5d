#!/usr/bin/env python3
"""Ackline and the field on one private PostgreSQL server, in one run.

benchmarks/postgres_field.py                                everything; it sets itself up
benchmarks/postgres_field.py --only ackline --only pgqueuer these two
benchmarks/postgres_field.py --markdown FILE --json FILE --plot FILE

benchmarks/postgres_field.py --held-snapshot                Ackline alone: does it slow down while
                                                            another session holds a snapshot open?
benchmarks/postgres_field.py --laps 1200000                 the same without, in a long run

docs/benchmarks.md says what each measure means.
"""

import argparse

from field.command import as_json, compare, end_with_signal, in_own_environment, options, write


def main() -> None:
    in_own_environment()
    # Only now: they need what is installed there.
    from field.entries import POSTGRES_FIELD
    from field.on_postgres import OnPostgres

    parser = options(__doc__, POSTGRES_FIELD, usual_jobs=100_000)
    parser.add_argument("--held-snapshot", action="store_true", help="during 500,000 jobs")
    parser.add_argument("--laps", type=int, metavar="JOBS", help="how fast each tenth of them is")
    arguments = parser.parse_args()
    if arguments.laps or arguments.held_snapshot:
        run_laps(arguments)
    else:
        compare(arguments, OnPostgres(), POSTGRES_FIELD)


def run_laps(arguments: argparse.Namespace) -> None:
    from field import laps

    end_with_signal()
    measured = laps.run(arguments.laps or laps.JOBS, held=arguments.held_snapshot)
    print(laps.text(measured))
    write(arguments.json, lambda: as_json(measured))
    write(arguments.markdown, lambda: laps.text(measured) + "\n")


if __name__ == "__main__":
    main()
