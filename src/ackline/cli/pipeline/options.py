"""Options that several pipeline commands share."""

from __future__ import annotations

from typing import Annotated

import typer

MasterOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where Spark runs: spark://host:7077, sc://host (Spark Connect) or local[N]. "
        "By default, on this machine.",
    ),
]

SharedFilesOption = Annotated[
    bool,
    typer.Option(
        "--shared-files",
        help="Use a SQLite store on a cluster: all of its machines see the same files.",
    ),
]

LakeOption = Annotated[
    str,
    typer.Option(
        "--lake",
        metavar="PATH",
        help="The lake's folder, or a URL such as s3a://bucket/lake.",
        show_default=False,
    ),
]
