"""Views computed from the journal: a job's timeline, the latest events, throughput."""
