"""Options that several pipeline commands share."""

from __future__ import annotations

import click

master_option = click.option(
    "--master",
    metavar="URL",
    help="Where Spark runs: spark://host:7077, sc://host (Spark Connect) or local[N]. By "
    "default, on this machine.",
)

shared_files_option = click.option(
    "--shared-files",
    is_flag=True,
    help="Use a SQLite store on a cluster: all of its machines see the same files.",
)

lake_option = click.option(
    "--lake",
    required=True,
    metavar="PATH",
    help="The lake's folder, or a URL such as s3a://bucket/lake.",
)
