"""`ackline pipeline audit`: prove from the journal that no job was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec
from rich.text import Text

from ackline.cli.app import command
from ackline.cli.exits import CommandError
from ackline.cli.options import values
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import pluralize, safe
from ackline.cli.pipeline import pipeline
from ackline.cli.pipeline.gap_text import gap_text
from ackline.cli.pipeline.preflight import (
    master_option,
    require_shared_store,
    shared_files_option,
    start_spark,
    warn_if_no_queues,
)
from ackline.cli.pipeline.spark_errors import stopping_spark
from ackline.cli.session import Session

if TYPE_CHECKING:
    from ackline.spark.audit.run import AuditResult

EXIT_UNPROVEN = 4
"""The exit code of an audit without findings that could not see everything, or anything."""

NOTHING_TO_AUDIT = "there are no events and no jobs to audit"

MAX_LISTED = 20
"""How many findings are shown; --json has up to a thousand."""


@command("audit", group=pipeline)
@click.argument("queue", nargs=-1, help="Only these queues (default: all).")
@click.option(
    "--lake",
    metavar="PATH",
    help="Also audit the events of this lake, which keeps what journals drop.",
)
@master_option
@shared_files_option
@click.option(
    "--result-ttl",
    type=values.seconds,
    metavar="SPAN",
    help="Report completed jobs that were removed, or whose id was enqueued again, within this "
    "time (default: not checked).",
)
@click.option(
    "--whole", is_flag=True, help="Exit with 4 if events that the proof needs are missing."
)
def audit(
    session: Session,
    queue: tuple[str, ...],
    lake: str | None,
    master: str | None,
    shared_files: bool,
    result_ttl: float | None,
    whole: bool,
) -> None:
    """Prove from the whole journal that no job was lost.

    Every enqueued job must be unfinished in the store or have finished exactly once, and no event
    may record a transition that cannot happen. Exits with 1 if there is a finding, and with 4 if
    there are no events and no jobs to audit.

    Workers may keep running. A journal that has dropped old events proves only what came after
    them, unless a lake has them: the output says since when.
    """
    require_shared_store(session, master, shared_files)
    names = [session.existing_queue(name).name for name in queue] if queue else None
    queues = session.queues
    warn_if_no_queues(session)
    from ackline.spark.lake.lake import Lake

    history = None if lake is None else Lake(lake)
    if history is not None:
        history.require_of(queues)
    spark = start_spark(session, master)
    from ackline.spark.audit.run import run_audit

    with (
        stopping_spark(spark, "nothing was proven"),
        session.notices.status("reading the journal"),
    ):
        found = run_audit(
            spark,
            session.url,
            queues,
            names,
            lake=history,
            shared_files=shared_files,
            result_ttl=result_ttl,
        )
    if session.json:
        session.print_json(_document(found))
    else:
        _show(session, found)
    _require_proof(found, whole)


def _document(found: AuditResult) -> dict[str, object]:
    from ackline.spark.audit.findings import FINDINGS

    return {
        **msgspec.to_builtins(found),
        "counts": {name: found.counts.get(name, 0) for name in FINDINGS},
        "passed": found.passed,
        "proven": found.proven and not _is_empty(found),
    }


def _is_empty(found: AuditResult) -> bool:
    """Whether there was nothing to audit, as when the tenant's name is mistyped."""
    return not (found.events or found.jobs)


def _require_proof(found: AuditResult, whole: bool) -> None:
    if not found.passed:
        total = sum(found.counts.values())
        raise CommandError(f"the audit failed: {pluralize(total, 'finding')}")
    if found.proven and _is_empty(found):
        raise CommandError(
            f"not proven: {NOTHING_TO_AUDIT}. Check --store and --tenant", EXIT_UNPROVEN
        )
    if whole and not found.proven:
        queues = ", ".join(safe(gap.queue) for gap in found.gaps)
        raise CommandError(
            "not proven: there are no findings, but events are missing, and a job that was lost "
            "before them would not be noticed. To see more next time, raise keep_journal and "
            f"max_journal, or keep a lake and audit it with --lake: {queues}",
            EXIT_UNPROVEN,
        )


def _show(session: Session, found: AuditResult) -> None:
    from ackline.spark.audit.findings import FINDINGS

    session.print(f"{found.events:,} events, {found.jobs:,} jobs")
    for gap in found.gaps:
        session.print(f"Missing: {gap_text(gap)}", "yellow")
    table = new_table("finding", "", "count", right=1, shrinkable=[("", 24)], fold=[""])
    for name, meaning in FINDINGS.items():
        number = found.counts.get(name, 0)
        table.add_row(name, meaning, Text(f"{number:,}", "red" if number else "green"))
    session.print(table)
    if found.passed:
        _print_verdict(session, found)
        return
    details = new_table(
        "finding",
        "queue",
        "job",
        "detail",
        shrinkable=[("detail", 24), ("job", 12), ("queue", 12)],
        fold=["detail", "job", "queue"],
    )
    for row in found.findings[:MAX_LISTED]:
        details.add_row(*(safe(str(row[name])) for name in ("finding", "queue", "id", "detail")))
    session.print(details)


def _print_verdict(session: Session, found: AuditResult) -> None:
    if not found.proven:
        session.print("No job was lost, as far as the journal goes back.", "green")
    elif _is_empty(found):
        session.print(f"{NOTHING_TO_AUDIT.capitalize()}.", "yellow")
    else:
        session.print("No job was lost.", "green")
