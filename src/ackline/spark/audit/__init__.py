"""The audit as a job: what is read of a store and of its lake, judged, and looked at once more.

How it is judged is in `ackline.spark.pipelines.audit`.
"""
