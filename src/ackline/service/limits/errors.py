"""Errors of exceeded limits (429): each says when to retry."""

from __future__ import annotations

import math

from ackline.service.http.problems import ProblemError


class TooMany(ProblemError):
    """More than the limits allow."""

    status = 429
    type = "too-many"

    def __init__(self, detail: str, limit: str, seconds: float = 1.0) -> None:
        super().__init__(f"{detail}; nothing was done")
        self.limit = limit
        self.seconds = max(1, math.ceil(seconds))

    @property
    def headers(self) -> dict[str, str]:
        """When to retry, for programs."""
        return {
            "retry-after": str(self.seconds),
            "ratelimit": f'"{self.limit}";r=0;t={self.seconds}',
        }


class TooManyRequests(TooMany):
    """More requests than the tenant may send."""

    type = "too-many-requests"


class TooManyJobs(TooMany):
    """More jobs than the tenant may enqueue at a time."""

    type = "too-many-jobs"


class QueueFull(TooMany):
    """More live jobs than the tenant may have."""

    type = "queue-full"


class TooManyStreams(TooMany):
    """More open streams than the tenant may have."""

    type = "too-many-streams"


class TooManyWaitingQueues(TooMany):
    """More queues to wait for than the tenant may have."""

    type = "too-many-waiting-queues"


class TooManyLoginFailures(TooMany):
    """Too many invalid credentials from one address."""

    type = "too-many-login-failures"
