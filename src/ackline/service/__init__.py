"""The HTTP service: jobs for programs in any language."""

from ackline.service.app import create_app
from ackline.service.credentials import ApiKey, Issuer
from ackline.service.settings import Settings

__all__ = ["ApiKey", "Issuer", "Settings", "create_app"]
