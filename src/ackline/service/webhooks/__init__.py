"""Webhooks: events of jobs, sent to other services, signed and retried.

```
journal ─ Dispatcher ─ the queue `webhooks` of the service's own tenant ─ DeliveryWorker ─ receiver
```

The journal is the source. A dispatcher enqueues a delivery for each event that matches a webhook,
with an id derived from the event, and only then saves its position. So nothing is lost when a
process dies, and two dispatchers at the same time enqueue each delivery once. A delivery is a job
like any other: leased, retried by its backoff, finally moved to the DLQ.
"""
