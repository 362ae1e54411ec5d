"""The HTTP service: jobs for programs in any language."""

from ackline.service.allowance import Allowance
from ackline.service.app import create_app
from ackline.service.auth.credentials import ApiKey, Issuer
from ackline.service.settings import Settings
from ackline.service.webhooks.settings import WebhookSettings

__all__ = ["Allowance", "ApiKey", "Issuer", "Settings", "WebhookSettings", "create_app"]
