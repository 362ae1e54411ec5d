"""Options and arguments that several commands have, and who runs them."""

from __future__ import annotations

import getpass

import click

from ackline.cli.options import values
from ackline.core.job import State

queue_argument = click.argument("queue", help="The queue.")
any_queue_argument = click.argument("queue", required=False, help="Only this queue.")
targets_argument = click.argument(
    "targets",
    nargs=-1,
    required=True,
    metavar="MODULE:NAME...",
    help="An app or queues: shop.jobs:app is `app` in shop/jobs.py.",
)
state_option = click.option(
    "--state",
    multiple=True,
    type=values.OneOf(State),
    metavar="STATE",
    help=f"Only this state: {', '.join(State)}. Can be repeated.",
)
kind_option = click.option("--kind", multiple=True, help="Only this kind. Can be repeated.")
tag_option = click.option(
    "--tag", multiple=True, help="Only jobs with this tag. If repeated, with all of them."
)
id_argument = click.argument("id", help="The job's id.")
priority_option = click.option(
    "--priority", type=int, metavar="N", help="0 (lowest) to 9 (highest)."
)
grace_option = click.option(
    "--grace",
    type=values.seconds,
    default="30s",
    metavar="SPAN",
    help="How long running jobs may take to finish on shutdown.",
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


def current_user() -> str:
    """The name under which the journal records this user's acts."""
    try:
        return f"{getpass.getuser()} (cli)"
    except (KeyError, OSError):
        return "cli"
