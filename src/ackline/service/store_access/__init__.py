"""What a caller may ask of the store itself, verb by verb, and what it gets to see."""

from ackline.service.store_access.answers import ReadOn
from ackline.service.store_access.arguments import Arguments
from ackline.service.store_access.pace import PACED_BY_BODY, ask_within_rate
from ackline.service.store_access.permits import permit

__all__ = ["PACED_BY_BODY", "Arguments", "ReadOn", "ask_within_rate", "permit"]
