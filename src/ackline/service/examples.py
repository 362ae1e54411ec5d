"""Bodies as the documentation of the API shows them, by operation."""

from __future__ import annotations

from typing import Any

EXAMPLES: dict[str, Any] = {
    "messages_enqueue": {
        "value": {"to": "ann@example.com", "subject": "Welcome"},
        "options": {"delay": 1000, "backoffSchedule": [1000, 5000, 30000]},
    },
    "messages_ack": {"id": "email-123", "receipt": "1794835219916151"},
    "messages_nack": {"id": "email-123", "error": "connection refused", "delay": 60000},
    "messages_touch": {"id": "email-123", "duration": 60000},
    "keys_set_key": {"value": {"seen": True}, "version": 0},
    "queues_configure": {"policy": {"max_attempts": 5, "backoff": [1, 5, 30]}, "max_jobs": 100000},
    "queues_rename_queue": {"to": "email-new"},
    "enqueue_enqueue": {"payload": {"to": "ann@example.com"}, "id": "email-123", "kind": "welcome"},
    "enqueue_enqueue_many": {"jobs": [{"payload": 1, "id": "a"}, {"payload": 2, "priority": 9}]},
    "jobs_redrive": {"delay": 0},
    "jobs_edit": {"payload": {"to": "bob@example.com"}, "priority": 9},
    "jobs_move": {"to": "email-slow"},
    "claims_claim": {"limit": 10, "lease": 30, "wait": 20, "worker": "node-1"},
    "claims_claim_from_several": {
        "queues": ["billing", "email"],
        "weights": [3, 1],
        "limit": 10,
        "worker": "node-1",
    },
    "work_settle": {
        "outcomes": [
            {"id": "a", "token": "1794835219916151", "outcome": "complete", "result": {"ok": True}},
            {
                "id": "b",
                "token": "1794835219916152",
                "outcome": "fail",
                "error": {"type": "TimeoutError", "message": "no answer"},
                "delay": 60,
            },
        ]
    },
    "work_extend": {
        "leases": [{"id": "a", "token": "1794835219916151", "seconds": 30}],
        "worker": "node-1",
        "ttl": 10,
    },
    "bulk_act_on_all": {
        "action": "redrive",
        "filter": {"kinds": ["welcome"], "fingerprint": "3f1d9c07a2be"},
        "rate": 10,
        "dry_run": True,
    },
    "webhooks_make_webhook": {
        "url": "https://example.com/hooks/ackline",
        "states": ["completed", "failed"],
        "queues": ["email"],
    },
    "webhooks_change_webhook": {"active": False},
    "webhooks_rotate": {"overlap": 86400},
    "schedules_put_schedule": {
        "cron": "0 3 * * *",
        "timezone": "Europe/Berlin",
        "payload": {"of": "yesterday"},
        "kind": "report",
    },
}
