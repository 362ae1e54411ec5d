"""Plays random histories on a store and on the memory store, which must not differ.

Needs Hypothesis.
"""

from ackline.testing.model.run import run_model

__all__ = ["run_model"]
