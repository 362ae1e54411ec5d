"""A Django project of one database, set up whenever a test wants it."""

import contextlib
from typing import Any

import django
from django.conf import settings
from django.db import connections


def database_of(info: Any) -> dict[str, Any]:
    """Django's settings for the database that a connection of psycopg leads to."""
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": info.dbname,
        "USER": info.user,
        "HOST": info.host,
        "PORT": str(info.port),
    }


def use_database(database: dict[str, Any]) -> None:
    """Make it the default; settings are made once, but databases may come and go."""
    if not settings.configured:
        settings.configure(DATABASES={"default": database})
        django.setup()
    forget_database()
    connections.settings = connections.configure_settings({"default": database})


def forget_database() -> None:
    """Close what is open, so that the next one is connected anew."""
    connections.close_all()
    for alias in list(connections):
        with contextlib.suppress(AttributeError):  # it was not opened in this thread
            del connections[alias]
