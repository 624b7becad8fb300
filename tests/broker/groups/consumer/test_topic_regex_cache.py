"""Tests of broker/groups/consumer/topic_regex_cache.py."""

import asyncio

import pytest

from odradek.broker.groups.consumer import topic_regex_cache
from odradek.broker.groups.consumer.topic_regex_cache import TopicRegexCache
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.protocol.errors import InvalidRegularExpression
from tests.support.turn_counting import in_turns


def topic_names(*names):
    return dict.fromkeys(names)


@pytest.fixture
def looked_at(monkeypatch):
    """The names that were matched with a regex, in order."""
    matched = []

    def compile_and_record(expression):
        matches = compile_regex(expression)
        return lambda name: matched.append(name) or matches(name)

    compile_regex = topic_regex_cache.compile_regex
    monkeypatch.setattr(topic_regex_cache, "compile_regex", compile_and_record)
    return matched


def test_each_topic_name_is_matched_once(looked_at):
    cache, first = TopicRegexCache(), topic_names("a1", "a2", "b")
    assert cache.matching_topics("a.", first) == cache.matching_topics("a.", first) == {"a1", "a2"}
    assert cache.matching_topics("a.", topic_names("a2", "b", "a3", "c")) == {"a2", "a3"}
    assert sorted(looked_at) == ["a1", "a2", "a3", "b", "c"]


@pytest.mark.usefixtures("short_turns")
async def test_many_names_are_matched_in_time_slices_and_then_cached(looked_at):
    cache, names = TopicRegexCache(), topic_names(*map(str, range(1_000)))
    assert cache.exceeds_inline_limit([".*7"], names)
    _, slices = await in_turns(cache.match_sliced(".*7", names, TimeSlice()))
    assert slices >= 1_000
    assert not cache.exceeds_inline_limit([".*7"], names)
    assert len(cache.matching_topics(".*7", names)) == 100
    assert len(looked_at) == 1_000


@pytest.mark.usefixtures("short_turns")
async def test_topics_created_and_deleted_during_matching_are_not_mixed_up(looked_at):
    cache, old = TopicRegexCache(), topic_names("a-old", "b")
    assert cache.matching_topics("a.*", old) == {"a-old"}
    new = topic_names(*(f"a{number}" for number in range(1_000)), "a-old")
    async with asyncio.TaskGroup() as group:
        matching = group.create_task(cache.match_sliced("a.*", new, TimeSlice()))
        await asyncio.sleep(0)
        assert looked_at
        assert not matching.done()
        assert cache.matching_topics("a.*", topic_names("a-other")) == {"a-other"}
    assert cache.matching_topics("a.*", new) == new.keys()


def test_invalid_regex_does_not_exceed_the_inline_limit():
    cache = TopicRegexCache()
    assert not cache.exceeds_inline_limit(["("], topic_names(*map(str, range(1000))))
    with pytest.raises(InvalidRegularExpression):
        cache.matching_topics("(", topic_names("a"))


def test_unused_regex_is_evicted_after_many_topic_changes():
    cache = TopicRegexCache()
    generations = [
        topic_names(str(number), "a")
        for number in range(topic_regex_cache.MAX_CACHED_TOPIC_CHANGES + 1)
    ]
    cache.on_topic_names_changed(generations[0])
    for each in ("a", "1", "2"):
        cache.matching_topics(each, generations[0])
    for names in generations[1:]:
        cache.on_topic_names_changed(names)
        assert cache.matching_topics("a", names) == {"a"}
    assert len(cache) == 1


async def test_invalid_regex_is_not_cached():
    cache = TopicRegexCache()
    await cache.match_sliced("(", topic_names("a"), TimeSlice())
    assert not len(cache)


def test_many_regexes_over_few_names_exceed_the_inline_limit_together():
    cache, names = TopicRegexCache(), topic_names("a", "b")
    regexes = [f"a{number}" for number in range(INLINE_ENTRIES_MAX)]
    assert cache.exceeds_inline_limit(regexes, names)
    assert not cache.exceeds_inline_limit(regexes[: INLINE_ENTRIES_MAX // 3], names)
    for each in regexes:
        cache.matching_topics(each, names)
    assert not cache.exceeds_inline_limit(regexes, names)
    # Each regex has to be checked once more, though each has seen all names.
    assert not cache.exceeds_inline_limit(regexes, topic_names("a"))
    assert cache.exceeds_inline_limit([*regexes, "one more"], topic_names("a"))


@pytest.mark.usefixtures("short_turns")
async def test_concurrent_matching_matches_each_name_once(looked_at):
    cache, names = TopicRegexCache(), topic_names(*map(str, range(1_000)))
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(cache.match_sliced(".*7", names, TimeSlice()))
    assert len(cache.matching_topics(".*7", names)) == 100
    assert len(looked_at) == 1_000


@pytest.mark.usefixtures("short_turns")
async def test_matching_continues_when_the_first_task_is_cancelled():
    cache, names = TopicRegexCache(), topic_names(*map(str, range(1_000)))
    async with asyncio.TaskGroup() as group:
        first = group.create_task(cache.match_sliced(".*7", names, TimeSlice()))
        await asyncio.sleep(0)
        group.create_task(cache.match_sliced(".*7", names, TimeSlice()))
        await asyncio.sleep(0)
        first.cancel()
    assert not cache.exceeds_inline_limit([".*7"], names)


def test_unused_regexes_are_evicted_above_the_capacity(monkeypatch, looked_at):
    monkeypatch.setattr(topic_regex_cache, "MAX_CACHED_REGEXES", 3)
    cache, names = TopicRegexCache(), topic_names("a1")
    for number in range(10):
        cache.matching_topics(f"a{number}", names)
        assert cache.is_over_capacity is (number >= 3)
    used = {f"a{number}" for number in range(4)}
    cache.retain_only(used)
    assert len(cache) == 4
    looked_at.clear()
    for each in used:
        cache.matching_topics(each, names)
    assert looked_at == []
    # There is room for as many again, so eviction does not run each time.
    for number in range(4, 9):
        assert not cache.is_over_capacity
        cache.matching_topics(f"a{number}", names)
    assert cache.is_over_capacity
