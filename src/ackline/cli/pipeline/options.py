"""Options that several commands of the pipeline have."""

from __future__ import annotations

from typing import Annotated

import typer

MasterOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where Spark runs: spark://…, sc://… or local[N]; on this machine unless it is said.",
    ),
]

SharedFilesOption = Annotated[
    bool,
    typer.Option(
        "--shared-files", help="All machines of the cluster see the same files, so SQLite may do."
    ),
]

LakeOption = Annotated[
    str, typer.Option("--lake", metavar="PATH", help="The lake's folder.", show_default=False)
]
