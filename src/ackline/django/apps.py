"""The Django app, for INSTALLED_APPS."""

from __future__ import annotations

from django.apps import AppConfig


class AcklineConfig(AppConfig):  # type: ignore[misc]
    """Adds the command `ackline_worker`."""

    name = "ackline.django"
    label = "ackline"
