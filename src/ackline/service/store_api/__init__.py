"""The store API: what a caller may call of the store, method by method, and what it can see."""

from ackline.service.store_api.arguments import Arguments
from ackline.service.store_api.execute import RATE_DEPENDS_ON_BODY, ContinueAt, execute_within_rate
from ackline.service.store_api.validation import validate

__all__ = ["RATE_DEPENDS_ON_BODY", "Arguments", "ContinueAt", "execute_within_rate", "validate"]
