"""`manage.py ackline_worker`."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand

from ackline.cli.app import run

OPTIONS = {
    "--queues": "Serve only these queues, such as email,images (default: those in TASKS).",
    "--concurrency": "Maximum number of tasks running at the same time, per queue and process.",
    "--processes": "Number of processes.",
    "--grace": "Seconds that running tasks have to finish when the worker stops.",
    "--log-format": "text or json.",
}


class Command(BaseCommand):  # type: ignore[misc]
    """Runs `ackline worker` on the queues of the project."""

    help = "Run the tasks that are enqueued through Ackline."

    def add_arguments(self, parser: Any) -> None:
        for option, text in OPTIONS.items():
            parser.add_argument(option, help=text)

    def handle(self, *_args: Any, **options: Any) -> None:
        arguments = ["worker", "ackline.django.worker:app"]
        for option in OPTIONS:
            value = options[option.removeprefix("--").replace("-", "_")]
            if value is not None:
                arguments += [option, str(value)]
        if code := run(arguments):
            sys.exit(code)
