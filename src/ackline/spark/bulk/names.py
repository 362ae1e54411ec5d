"""Names of files and columns in the notations of users and of Spark."""

from __future__ import annotations

import re
from urllib.parse import unquote


def quote_column(name: str) -> str:
    """The name of a column, escaped for Spark, which would take a dot for access to a field.

    >>> quote_column("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"


def display_path(uri: str) -> str:
    """The name of a file for messages.

    >>> display_path("file:///data/all%20mails.csv"), display_path("s3://data/mails.csv")
    ('/data/all mails.csv', 's3://data/mails.csv')
    """
    return unquote(re.sub("^file:(//)?(?=/)", "", uri))
