"""Scripts are linked from shared files: what they get, and where."""

import re

from ackline.stores.redis.lua import script
from ackline.stores.redis.lua.linker import link_script

SHARED = """
-- A word about it.
local LIMIT, NAME = 5, 'x'
local WORDS = {'a', 'b'}
local started = redis.call('TIME')

local function low(value)
  return value - LIMIT
end

local function only_for_rare(value)
  return low(value) .. NAME
end

-- on_demand
local function rare(value)
  return only_for_rare(value) .. WORDS[1]
end

local function unused()
  return rare(LIMIT)
end
"""


def functions_in(text: str) -> list[str]:
    return re.findall(r"local function (\w+)", text)


def test_what_a_script_does_not_use_is_left_out():
    text = link_script([SHARED], "return low(7)\n")

    assert functions_in(text) == ["low"]
    assert "WORDS" not in text
    assert "started" not in text


def test_constants_are_inlined():
    text = link_script([SHARED], "local LEAST = -1\nreturn low(LIMIT) .. NAME .. 'NAME' .. LEAST\n")

    assert "return low(5) .. 'x' .. 'NAME' .. (-1)" in text
    assert "LIMIT" not in text


def test_fields_with_the_name_of_a_constant_are_kept():
    assert "queue.LIMIT" in link_script([SHARED], "return queue.LIMIT + LIMIT\n")


def test_what_only_a_function_on_demand_needs_is_inside_it():
    text = link_script([SHARED], "if ARGV[1] then\n  return rare(1)\nend\nreturn low(2)\n")

    assert functions_in(text) == ["low", "rare", "only_for_rare"]
    rare = text.index("local function rare")
    assert text.index("local function only_for_rare") > rare
    assert text.index("local WORDS") < rare, "values are made once, in front"


def test_what_others_need_too_is_outside():
    text = link_script([SHARED], "return rare(1) .. only_for_rare(2)\n")

    assert functions_in(text) == ["low", "only_for_rare", "rare"]


def test_what_several_functions_on_demand_need_is_inside_each():
    other = "-- on_demand\nlocal function other(value)\n  return only_for_rare(value)\nend\n"
    text = link_script([SHARED, other], "return ARGV[1] and rare(1) or other(2)\n")

    assert functions_in(text) == ["rare", "low", "only_for_rare", "other", "low", "only_for_rare"]


def test_values_that_only_values_need_are_made():
    values = "local first = redis.call('TIME')[1]\nlocal second = {first}\n"
    text = link_script([values], "return second\n")

    assert "local first" in text


def test_functions_on_demand_can_be_nested():
    deeper = "-- on_demand\nlocal function outer(value)\n  return rare(value)\nend\n"
    text = link_script([SHARED, deeper], "return outer(1)\n")

    assert functions_in(text) == ["outer", "rare", "low", "only_for_rare"]


def test_what_runs_in_every_script_is_kept():
    text = link_script(
        ["local now = tonumber(ARGV[1])\nif not now then\n  now = 1\nend\n"], "return 2\n"
    )

    assert "if not now then\n  now = 1\nend" in text
    assert "local now" in text


def test_a_claim_without_transitions_creates_no_function_for_them():
    text = script("claim").text
    start = text.index("local function apply_transitions")

    for name in ("complete_all", "apply_one", "move_job", "apply_to_job"):
        assert text.index(f"local function {name}") > start
    assert text.index("local function lease_next(") > text.index("local function apply_one")
