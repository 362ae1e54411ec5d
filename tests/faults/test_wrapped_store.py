"""A wrapped store has every method of the contract, with the same signature."""

import inspect

import pytest

from ackline.stores.contract import Store
from tests.harness.faults.wrapped_store import WrappedStore

VERBS = [name for name, verb in vars(Store).items() if inspect.isfunction(verb) and name[0] != "_"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_method_has_the_signature_of_the_contract(verb):
    ours, theirs = getattr(WrappedStore, verb), getattr(Store, verb)

    assert inspect.signature(ours) == inspect.signature(theirs)
