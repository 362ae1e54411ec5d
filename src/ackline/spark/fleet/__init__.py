"""Handlers on Spark's executors: each task is a worker like any other.

Its jobs are held by leases and heartbeats. If an executor is lost, its leases lapse and the jobs
are delivered again, and Spark starts its task anew elsewhere. Spark ends tasks without warning, so
a fleet is stopped by a flag in the store: then each worker finishes the jobs that it runs.
"""
