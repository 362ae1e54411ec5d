"""Webhooks: what happens to jobs, sent to other services, signed, retried and never forgotten.

```
journal ─ Dispatcher ─ the queue `webhooks` of the service's own tenant ─ Deliverer ─ receiver
```

The journal is the source. A dispatcher enqueues a delivery for each event that a webhook
wants, under an id that follows from the event, and only then moves on. So nothing is left out when
a process dies, and two that dispatch at once make each delivery once. A delivery is a job like
any other: leased, retried by its backoff, dead-lettered at its end.
"""
