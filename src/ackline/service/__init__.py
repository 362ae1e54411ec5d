"""The HTTP service: jobs for programs in any language."""

from ackline.service.app import create_app
from ackline.service.auth.credentials import ApiKey, Issuer
from ackline.service.limits.tenant_limits import TenantLimits
from ackline.service.settings import Settings
from ackline.service.webhooks.settings import WebhookSettings

__all__ = ["ApiKey", "Issuer", "Settings", "TenantLimits", "WebhookSettings", "create_app"]
