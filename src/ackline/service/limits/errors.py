"""Temporary refusals: too much, too soon; each says when to try again."""

from __future__ import annotations

import math

from ackline.service.http.problems import ProblemError


class TooMany(ProblemError):
    """More than is allowed now."""

    status = 429
    type = "too-many"

    def __init__(self, detail: str, limit: str, seconds: float = 1.0) -> None:
        super().__init__(f"{detail}; nothing was done")
        self.limit = limit
        self.seconds = max(1, math.ceil(seconds))

    @property
    def headers(self) -> dict[str, str]:
        """When to try again, for programs."""
        return {
            "retry-after": str(self.seconds),
            "ratelimit": f'"{self.limit}";r=0;t={self.seconds}',
        }


class TooManyRequests(TooMany):
    """More requests than its tenant may send."""

    type = "too-many-requests"


class TooManyJobs(TooMany):
    """More jobs at a time than its tenant may enqueue."""

    type = "too-many-jobs"


class QueueFull(TooMany):
    """More live jobs than its tenant may have."""

    type = "queue-full"


class TooManyStreams(TooMany):
    """More open streams than its tenant may have."""

    type = "too-many-streams"


class TooManyWaitingQueues(TooMany):
    """More queue names to wait for than its tenant may have."""

    type = "too-many-waiting-queues"


class TooManyLoginFailures(TooMany):
    """Too many invalid credentials from one address."""

    type = "too-many-login-failures"
