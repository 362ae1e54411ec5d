"""What a caller may ask of the store itself, verb by verb, and what it gets to see."""

from ackline.service.store_access.answers import ReadOn, ask
from ackline.service.store_access.permits import permit
from ackline.service.store_access.scopes import SCOPES, Arguments

__all__ = ["SCOPES", "Arguments", "ReadOn", "ask", "permit"]
