"""A Django project with one database, set up when a test needs it."""

import contextlib
from typing import Any

import django
from django.conf import settings
from django.db import connections


def database_of(info: Any) -> dict[str, Any]:
    """Django's settings for the database of a psycopg connection."""
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": info.dbname,
        "USER": info.user,
        "HOST": info.host,
        "PORT": str(info.port),
    }


def use_database(database: dict[str, Any]) -> None:
    """Make it the default database; settings are made once, but the database may change."""
    if not settings.configured:
        settings.configure(DATABASES={"default": database})
        django.setup()
    forget_database()
    connections.settings = connections.configure_settings({"default": database})


def forget_database() -> None:
    """Close the connection, so that the next test opens its own."""
    connections.close_all()
    for alias in list(connections):
        with contextlib.suppress(AttributeError):  # not opened in this thread
            del connections[alias]
