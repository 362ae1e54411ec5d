"""Options and arguments that several commands have."""

from __future__ import annotations

import click

from ackline.cli.options import values
from ackline.core.job import State

queue_argument = click.argument("queue", help="The queue.")
any_queue_argument = click.argument("queue", required=False, help="Only of this queue.")
targets_argument = click.argument(
    "targets",
    nargs=-1,
    required=True,
    metavar="MODULE:QUEUE...",
    help="Queues with handlers: shop.workers:queue is `queue` in shop/workers.py.",
)
state_option = click.option(
    "--state",
    multiple=True,
    type=values.OneOf(State),
    metavar="STATE",
    help=f"Only this state: {', '.join(State)}. May be given again.",
)
kind_option = click.option("--kind", multiple=True, help="Only this kind; may be given again.")
priority_option = click.option(
    "--priority", type=int, metavar="N", help="0 (lowest) to 9 (highest)."
)
grace_option = click.option(
    "--grace",
    type=values.seconds,
    default="30s",
    metavar="SPAN",
    help="How long running jobs may go on at a stop.",
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
