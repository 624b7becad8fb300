"""Tests of broker/groups/consumer/expressions.py."""

import asyncio

import pytest

from odradek.broker.groups.consumer import expressions
from odradek.broker.groups.consumer.expressions import Expressions
from odradek.broker.turns import FEW, Turn
from odradek.protocol.errors import InvalidRegularExpression
from tests.support.turn_counting import in_turns


def named(*names):
    return dict.fromkeys(names)


@pytest.fixture
def looked_at(monkeypatch):
    """The names that were matched with an expression, one after the other."""
    seen = []

    def compiled(expression):
        matches = expressions_compiled(expression)
        return lambda name: seen.append(name) or matches(name)

    expressions_compiled = expressions.compiled
    monkeypatch.setattr(expressions, "compiled", compiled)
    return seen


def test_each_name_is_looked_at_once(looked_at):
    known, first = Expressions(), named("a1", "a2", "b")
    assert known.found("a.", first) == known.found("a.", first) == {"a1", "a2"}
    assert known.found("a.", named("a2", "b", "a3", "c")) == {"a2", "a3"}
    assert sorted(looked_at) == ["a1", "a2", "a3", "b", "c"]


@pytest.mark.usefixtures("short_turns")
async def test_many_are_looked_at_in_turns_and_then_no_more(looked_at):
    known, names = Expressions(), named(*map(str, range(1_000)))
    assert known.would_take_long([".*7"], names)
    _, turns = await in_turns(known.find_in_turns(".*7", names, Turn()))
    assert turns >= 1_000
    assert not known.would_take_long([".*7"], names)
    assert len(known.found(".*7", names)) == 100
    assert len(looked_at) == 1_000


@pytest.mark.usefixtures("short_turns")
async def test_names_that_come_and_go_while_others_are_looked_at_are_not_mixed_up(looked_at):
    known, old = Expressions(), named("a-old", "b")
    assert known.found("a.*", old) == {"a-old"}
    new = named(*(f"a{number}" for number in range(1_000)), "a-old")
    async with asyncio.TaskGroup() as group:
        finding = group.create_task(known.find_in_turns("a.*", new, Turn()))
        await asyncio.sleep(0)
        assert looked_at
        assert not finding.done()
        assert known.found("a.*", named("a-other")) == {"a-other"}
    assert known.found("a.*", new) == new.keys()


def test_one_that_is_refused_does_not_take_long():
    known = Expressions()
    assert not known.would_take_long(["("], named(*map(str, range(1000))))
    with pytest.raises(InvalidRegularExpression):
        known.found("(", named("a"))


def test_one_that_is_not_asked_for_does_not_keep_what_was_long_ago():
    known = Expressions()
    generations = [named(str(number), "a") for number in range(expressions.CHANGES_KEPT + 1)]
    known.names_changed(generations[0])
    for each in ("a", "1", "2"):
        known.found(each, generations[0])
    for names in generations[1:]:
        known.names_changed(names)
        assert known.found("a", names) == {"a"}
    assert len(known) == 1


async def test_one_that_is_refused_is_left_for_whoever_asks():
    known = Expressions()
    await known.find_in_turns("(", named("a"), Turn())
    assert not len(known)


def test_many_that_look_at_few_names_each_take_long_together():
    known, names = Expressions(), named("a", "b")
    several = [f"a{number}" for number in range(FEW)]
    assert known.would_take_long(several, names)
    assert not known.would_take_long(several[: FEW // 3], names)
    for each in several:
        known.found(each, names)
    assert not known.would_take_long(several, names)
    # Each has to be gone through once more, though there is no name that it has not seen.
    assert not known.would_take_long(several, named("a"))
    assert known.would_take_long([*several, "one more"], named("a"))


@pytest.mark.usefixtures("short_turns")
async def test_names_are_looked_at_once_for_all_who_ask_at_the_same_time(looked_at):
    known, names = Expressions(), named(*map(str, range(1_000)))
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(known.find_in_turns(".*7", names, Turn()))
    assert len(known.found(".*7", names)) == 100
    assert len(looked_at) == 1_000


@pytest.mark.usefixtures("short_turns")
async def test_if_whoever_looks_at_names_is_gone_others_do():
    known, names = Expressions(), named(*map(str, range(1_000)))
    async with asyncio.TaskGroup() as group:
        first = group.create_task(known.find_in_turns(".*7", names, Turn()))
        await asyncio.sleep(0)
        group.create_task(known.find_in_turns(".*7", names, Turn()))
        await asyncio.sleep(0)
        first.cancel()
    assert not known.would_take_long([".*7"], names)


def test_of_many_those_are_forgotten_that_nobody_uses(monkeypatch, looked_at):
    monkeypatch.setattr(expressions, "EXPRESSIONS_KEPT", 3)
    known, names = Expressions(), named("a1")
    for number in range(10):
        known.found(f"a{number}", names)
        assert known.are_many is (number >= 3)
    used = {f"a{number}" for number in range(4)}
    known.forget_all_but(used)
    assert len(known) == 4
    looked_at.clear()
    for each in used:
        known.found(each, names)
    assert looked_at == []
    # There is room for as many again: it is not worth while to look for them each time.
    for number in range(4, 9):
        assert not known.are_many
        known.found(f"a{number}", names)
    assert known.are_many
