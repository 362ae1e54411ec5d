"""The rules of a store as an importable suite: subclass `StoreConformance`, run pytest.

Differences between stores are their `Capabilities`, not exceptions from the rules.
"""

import pytest

# Before the cases are imported, or their failures would not show what was compared.
pytest.register_assert_rewrite(
    "ackline.testing.conformance.driver", "ackline.testing.conformance.rules"
)

from ackline.testing.conformance.case import StoreCase  # noqa: E402
from ackline.testing.conformance.driver import QueueDriver  # noqa: E402
from ackline.testing.conformance.suite import StoreConformance  # noqa: E402

__all__ = ["QueueDriver", "StoreCase", "StoreConformance"]
