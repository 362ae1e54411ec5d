"""`ackline pipeline load`, `export` and `redrive`: many jobs with Spark."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

import click
import msgspec
from rich.table import Table

from ackline.cli.app import command
from ackline.cli.exits import CommandError, UsageError
from ackline.cli.options.common import current_user
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import pluralize, safe, truncate
from ackline.cli.pipeline import pipeline
from ackline.cli.pipeline.preflight import (
    master_option,
    require_files,
    require_shared_store,
    require_writable,
    shared_files_option,
    start_spark,
    store_address,
    warn_if_no_queues,
)
from ackline.cli.pipeline.progress import with_progress
from ackline.cli.pipeline.spark_errors import stopping_spark
from ackline.cli.session import Session

if TYPE_CHECKING:
    from ackline.spark.bulk.redrive import Rejections
    from ackline.spark.writing.rejected_rows import RejectedRow

MAX_LISTED = 10
"""How many rejected rows, or selected jobs, are shown."""

set_option = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="NAME=SQL",
    help="Set a field of the job by SQL over the row's columns. Can be repeated.",
)
rejected_option = click.option(
    "--rejected",
    metavar="FOLDER",
    help="Save rejected rows in this folder, with the reason; each run adds its own files.",
)
max_rejected_option = click.option(
    "--max-rejected",
    type=click.IntRange(min=1),
    default=1000,
    metavar="N",
    help="Without --rejected: maximum number of rejected rows per task; more are an error.",
)


@command("load", group=pipeline, creates_store=True)
@click.argument("files", nargs=-1, required=True, help="JSON lines, CSV or Parquet.")
@click.option("--queue", help="The queue of all rows; by default, the column `queue`.")
@click.option(
    "--format",
    type=click.Choice(["json", "csv", "parquet"]),
    help="The files' format; by default, from their names.",
)
@click.option("--kind", help="The kind of all jobs.")
@click.option(
    "--infer",
    is_flag=True,
    help="Let Spark infer numbers, dates and flags in CSV; by default, all values are text.",
)
@click.option(
    "--delimiter",
    metavar="CHARACTER",
    help="Separator of CSV values, such as ';' or tab (default: comma).",
)
@set_option
@rejected_option
@max_rejected_option
@click.option("--replace", is_flag=True, help="Enqueue failed and cancelled jobs again.")
@master_option
@shared_files_option
def load(
    session: Session,
    files: tuple[str, ...],
    queue: str | None,
    format: Literal["json", "csv", "parquet"] | None,
    kind: str | None,
    infer: bool,
    delimiter: str | None,
    sets: tuple[str, ...],
    rejected: str | None,
    max_rejected: int,
    replace: bool,
    master: str | None,
    shared_files: bool,
) -> None:
    """Enqueue each row of the files as a job.

    A line of JSON is a payload. In CSV and Parquet, columns named like a field of a job (id,
    priority, delay, …) set that field. The column `payload` is JSON; without one, all other columns
    together are the payload, those of CSV as text: 00123 stays what it is. A job without an id
    gets one from its content, so files can be loaded again: nothing is enqueued twice while its
    job is kept, by default an hour after it was completed; --set result_ttl=604800 makes it a week.

    ackline pipeline load orders.csv --queue email --set "id=order_number"
    """
    require_shared_store(session, master, shared_files)
    expressions, separator = parse_set_options(sets), parse_delimiter(delimiter)
    from ackline.spark.bulk.input_files import (
        format_of,
        read_files,
        require_settable_fields,
        with_set_columns,
    )

    require_settable_fields(expressions)
    written_as = format_of(files, format)
    require_files(files, master)
    require_writable(rejected)
    spark = start_spark(session, master)
    from ackline.spark.bulk.load import load_files as load_files
    from ackline.spark.options import JobsWriteOptions
    from ackline.spark.store.address import resolve_address

    with stopping_spark(
        spark, "run it again to load the rest; no job is enqueued twice while it is kept"
    ):
        found = read_files(
            spark, files, written_as, infer=infer, delimiter=separator, computed=expressions
        )
        found = msgspec.structs.replace(found, rows=with_set_columns(found.rows, expressions))
        options = JobsWriteOptions(
            store=session.url,
            table="jobs",
            tenant=session.queues.tenant,
            shared_files=shared_files,
            queue=queue,
            kind=kind,
            id_from="column" if "id" in found.rows.columns else "content",
            existing="replace" if replace else "keep",
            rejected_path=rejected,
            max_rejected=max_rejected,
        )
        address = resolve_address(options, creates=True)
        loaded = with_progress(
            session,
            spark,
            "enqueueing",
            lambda: load_files(found, options, address, run_name("load")),
        )
    if session.json:
        session.print_json(loaded)
    else:
        session.print(
            f"{pluralize(loaded.enqueued, 'job')} enqueued{_skipped_text(loaded.duplicates)}"
        )
    report_rejected(session, loaded.rejected, loaded.rejected_rows, rejected)


@command("export", group=pipeline)
@click.argument(
    "table",
    type=click.Choice(["jobs", "dlq", "events"]),
    metavar="TABLE",
    help="The table to export: jobs, dlq or events.",
)
@click.argument("path", help="The folder to write the files to.")
@click.option(
    "--format", type=click.Choice(["parquet", "json"]), default="parquet", help="The files' format."
)
@click.option("--where", metavar="SQL", help="Only rows that match this condition.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier export.")
@master_option
@shared_files_option
def export(
    session: Session,
    table: Literal["jobs", "dlq", "events"],
    path: str,
    format: Literal["parquet", "json"],
    where: str | None,
    overwrite: bool,
    master: str | None,
    shared_files: bool,
) -> None:
    """Write jobs, the DLQ or the journal to files.

    ackline pipeline export dlq /tmp/dead --format json --where "kind = 'welcome'"
    """
    require_shared_store(session, master, shared_files)
    warn_if_no_queues(session)
    require_writable(path)
    spark = start_spark(session, master)
    from ackline.spark.bulk.export import export_rows as write
    from ackline.spark.bulk.export import filter_rows, payloads_as_text, read_table

    with stopping_spark(spark, f"{safe(path)} is unchanged"):
        rows = read_table(spark, store_address(session, shared_files), table)
        if format == "json":
            rows = payloads_as_text(rows)
        rows = filter_rows(rows, where)
        total = with_progress(
            session, spark, "exporting", lambda: write(rows, path, format, overwrite=overwrite)
        )
    if session.json:
        session.print_json({"exported": total, "path": path})
    else:
        session.print(f"{pluralize(total, 'row')} in {safe(path)}")


@command("redrive", group=pipeline)
@click.option(
    "--where",
    required=True,
    metavar="SQL",
    help="Which jobs: a condition over the columns of the table `dlq`; payload is text.",
)
@set_option
@click.option(
    "--rate",
    type=click.FloatRange(min=0.001),
    metavar="N",
    help="Redrive about N jobs per second.",
)
@click.option("--dry-run", is_flag=True, help="Show which jobs match, and change nothing.")
@rejected_option
@max_rejected_option
@master_option
@shared_files_option
def redrive(
    session: Session,
    where: str,
    sets: tuple[str, ...],
    rate: float | None,
    dry_run: bool,
    rejected: str | None,
    max_rejected: int,
    master: str | None,
    shared_files: bool,
) -> None:
    """Run the jobs of the DLQ that match a condition again.

    A job that has left the DLQ meanwhile, or has failed again, is skipped, so the command can be
    repeated. --set changes their payload or priority first.

    ackline pipeline redrive --where "error_type = 'Timeout'" --rate 50 --dry-run
    """
    require_shared_store(session, master, shared_files)
    expressions = parse_set_options(sets)
    warn_if_no_queues(session)
    from ackline.spark.bulk.redrive import find_rejections, plan_redrive, require_settable

    require_settable(expressions)
    require_writable(rejected)
    spark = start_spark(session, master)
    from ackline.spark.bulk.export import filter_rows, payloads_as_text, read_table
    from ackline.spark.bulk.redrive import redrive_jobs as act
    from ackline.spark.writing.rejected_target import RejectedRowsTarget

    rest = "run it again to redrive the rest; no job is redriven twice"
    with stopping_spark(spark, "nothing was changed" if dry_run else rest):
        kept = RejectedRowsTarget.create(
            rejected, run_name("redrive"), max_rejected, "--rejected FOLDER"
        )
        address = store_address(session, shared_files)
        dead = filter_rows(payloads_as_text(read_table(spark, address, "dlq")), where)
        plan = plan_redrive(dead, expressions, rate, dead.count() if rate else 0)
        if dry_run:
            # A job that is not changed cannot be rejected.
            preview = _preview(dead, plan, find_rejections(plan, address) if expressions else None)
            print_preview(session, preview, rejected)
            return
        done = with_progress(
            session, spark, "redriving", lambda: act(plan, address, current_user(), kept)
        )
    total = sum(done.redriven.values())
    if session.json:
        session.print_json(done)
    else:
        others = _others_text(done.skipped, "changed meanwhile and skipped")
        session.print(f"{pluralize(total, 'job')} redriven{others}")
    report_rejected(session, done.refused, done.rejected, rejected, job_text)


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What a redrive would do."""

    matching: int
    refused: int
    groups: list[dict[str, Any]]
    """How many jobs match, by queue, kind and type of error."""
    examples: list[dict[str, Any]]
    """The first of them, with their changes."""
    rejected: list[RejectedRow]
    """The first that would be rejected, with the reasons."""


def _preview(dead: Any, plan: Any, checked: Rejections | None) -> Preview:
    rows = dead.groupBy("queue", "kind", "error_type").count().orderBy("count", ascending=False)
    groups = [row.asDict() for row in rows.collect()]
    changes = plan.select("queue", "id", "delay", "priority", "payload").limit(MAX_LISTED)
    return Preview(
        matching=sum(row["count"] for row in groups),
        refused=0 if checked is None else checked.refused,
        groups=groups,
        examples=[row.asDict() for row in changes.collect()],
        rejected=[] if checked is None else checked.rejected[:MAX_LISTED],
    )


def print_preview(session: Session, preview: Preview, folder: str | None) -> None:
    """Show what a redrive would do; fail if the redrive would fail."""
    if session.json:
        session.print_json(preview)
    else:
        _show_preview(session, preview)
    if not preview.refused:
        return
    _show_rejected(session, preview.rejected, job_text)
    if preview.refused > MAX_LISTED:
        session.notice(_more(preview.refused, "a redrive with --rejected FOLDER saves them"))
    if folder is None:
        raise CommandError(
            f"{pluralize(preview.refused, 'job')} would be rejected. Correct --set or --where, or "
            "save them with --rejected FOLDER"
        )


def _show_preview(session: Session, preview: Preview) -> None:
    table = new_table(
        "queue",
        "kind",
        "error",
        "jobs",
        right=1,
        shrinkable=[("error", 12), ("kind", 12), ("queue", 12)],
        fold=["error", "kind", "queue"],
    )
    for row in preview.groups[:MAX_LISTED]:
        error = safe(row["error_type"] or "")
        table.add_row(safe(row["queue"]), safe(row["kind"]), error, f"{row['count']:,}")
    session.print(table)
    session.print(_examples(preview.examples))
    refused = preview.refused
    tail = f", {refused:,} rejected" if refused else ""
    left = pluralize(preview.matching - refused, "job")
    session.print(f"{left} would be redriven{tail}. Nothing was changed.")


def _examples(rows: list[dict[str, Any]]) -> Table:
    changes = new_table(
        "job",
        "due in",
        "priority",
        "payload",
        shrinkable=[("payload", 24), ("job", 12)],
        fold=["payload", "job"],
    )
    for row in rows:
        payload, priority = row["payload"], row["priority"]
        changes.add_row(
            safe(row["id"]),
            f"{row['delay']:.0f} s",
            "unchanged" if priority is None else str(priority),
            "unchanged" if payload is None else truncate(safe(payload), 60),
        )
    return changes


# --- shared by these commands ---


def parse_set_options(sets: Iterable[str]) -> dict[str, str]:
    """Parse `--set priority=9`: SQL expressions by name."""
    expressions = {}
    for text in sets:
        name, equals, sql = text.partition("=")
        if not equals or not name.strip() or not sql.strip():
            raise UsageError(f"--set {text!r}: write NAME=SQL, such as priority=9")
        if name.strip() in expressions:
            raise UsageError(f"--set {name.strip()}=… is given twice")
        expressions[name.strip()] = sql.strip()
    return expressions


def parse_delimiter(text: str | None) -> str | None:
    """Parse `--delimiter`: one character, or `tab`, which is hard to type."""
    character = "\t" if text in ("tab", "\\t") else text
    if character is not None and (len(character) != 1 or character in '"\r\n'):
        raise UsageError(f"--delimiter {text!r}: write one character, such as ';', or tab")
    return character


def _skipped_text(rows: int) -> str:
    """A note on rows that were not enqueued, if there are any.

    >>> _skipped_text(2), _skipped_text(0)
    ('; 2 rows skipped: their id was enqueued before, or is in the files twice', '')
    """
    why = "their id was enqueued before, or is in the files twice"
    return f"; {pluralize(rows, 'row')} skipped: {why}" if rows else ""


def _others_text(number: int, what: str) -> str:
    """A note on other jobs, if there are any.

    >>> _others_text(1, "skipped"), _others_text(0, "skipped")
    (', 1 was skipped', '')
    """
    return f", {pluralize(number, 'was', 'were')} {what}" if number else ""


def run_name(command: str) -> str:
    """A unique name for the files of one run."""
    now = datetime.datetime.now(datetime.UTC)
    return f"{command}-{now:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"


def report_rejected(
    session: Session,
    refused: int,
    rejected: list[RejectedRow],
    folder: str | None,
    name: Callable[[RejectedRow], str] = lambda row: truncate(safe(row.row), 120),
) -> None:
    """Print where the rejected rows are, or print the rows and fail."""
    if not refused:
        return
    if folder is not None:
        session.notice(f"{pluralize(refused, 'row')} rejected: saved in {safe(folder)}")
        return
    _show_rejected(session, rejected, name)
    if refused > MAX_LISTED:
        session.notice(_more(refused, "--json lists them, --rejected FOLDER saves them"))
    raise CommandError(
        f"{pluralize(refused, 'row was', 'rows were')} rejected, all others are done. Correct "
        "them and run it again, which does nothing twice while the jobs are kept, or save the rows "
        "with --rejected FOLDER"
    )


def _show_rejected(
    session: Session, rejected: list[RejectedRow], name: Callable[[RejectedRow], str]
) -> None:
    for row in rejected[:MAX_LISTED]:
        session.notice(f"rejected: {name(row)}: {safe(row.reason)}", "red")


def _more(refused: int, where: str) -> str:
    """A note on rejected rows that are not shown.

    >>> _more(25, "--json lists them")
    'and 15 more: --json lists them'
    """
    return f"and {refused - MAX_LISTED:,} more: {where}"


def job_text(rejected: RejectedRow) -> str:
    """The queue and id of a rejected row of the DLQ."""
    try:
        row = msgspec.json.decode(rejected.row, type=QueueAndId)
    except ValueError:  # It was too long and was cut off.
        return truncate(safe(rejected.row), 120)
    return f"queue {safe(row.queue)}, job {safe(row.id)}"


class QueueAndId(msgspec.Struct, frozen=True):
    """The part of a row that names its job."""

    queue: str
    id: str
