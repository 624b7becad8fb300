"""Which of the cluster's topics does an expression match?  Each name is looked at once.

What is known of an expression is kept, with the names that it was known of.  When names come or go,
only these are looked at.  Where there are many, as for an expression that is new, whoever asks may
have them looked at in turns before, once for all who ask at the same time.  What was not asked for
since the names have changed often is forgotten: it would keep all the topics that there were.  Of
many expressions those are forgotten that no group uses.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Container, Iterable, Mapping, Set
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from odradek.broker.groups.consumer.regular_expression import RegexMatcher, compile_regex
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.protocol.errors import InvalidRegularExpression

#: A guess: more than the groups of a broker use.  If they use more, twice as many as these.
MAX_CACHED_REGEXES = 1000

#: Likewise: topics are rarely created faster than that while members send a heartbeat.
MAX_CACHED_TOPIC_CHANGES = 8

#: Topics by their names.  Where two hold the same names, they should be the same object.
TopicNames = Mapping[str, Any]

_NO_TOPIC_NAMES: TopicNames = {}


class _CachedMatches(NamedTuple):
    """``found`` are those of ``names`` that match."""

    matcher: RegexMatcher
    topic_names: TopicNames
    matching_topics: frozenset[str]

    def with_topic_names(
        self, topic_names: TopicNames, new_matches: Iterable[str]
    ) -> _CachedMatches:
        """Of ``names``, where ``found`` are those that match among the new ones."""
        retained = [name for name in self.matching_topics if name in topic_names]
        return _CachedMatches(self.matcher, topic_names, frozenset([*retained, *new_matches]))


class TopicRegexCache:
    """Those that groups of this broker use, or have used lately."""

    def __init__(self) -> None:
        self._cache: dict[str, _CachedMatches] = {}
        self._capacity = MAX_CACHED_REGEXES
        self._recent_topic_names: deque[TopicNames] = deque(maxlen=MAX_CACHED_TOPIC_CHANGES)
        #: Most have been matched with the same names: the last difference that was asked for.
        self._last_difference: tuple[TopicNames, TopicNames, Set[str]] = (
            _NO_TOPIC_NAMES,
            _NO_TOPIC_NAMES,
            frozenset(),
        )
        #: Held by whoever looks at the names in turns.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._cache)

    def on_topic_names_changed(self, topic_names: TopicNames) -> None:
        """To these, which will be asked about from now on."""
        self._recent_topic_names.append(topic_names)
        recent_ids = {id(names) for names in self._recent_topic_names}
        self._cache = {
            regex: cached
            for regex, cached in self._cache.items()
            if id(cached.topic_names) in recent_ids
        }

    @property
    def is_over_capacity(self) -> bool:
        """Members may tell another one by every heartbeat: some should be forgotten."""
        return len(self._cache) > self._capacity

    def retain_only(self, used_regexes: Container[str]) -> None:
        self._cache = {
            regex: cached for regex, cached in self._cache.items() if regex in used_regexes
        }
        self._capacity = max(MAX_CACHED_REGEXES, 2 * len(self._cache))

    def matching_topics(self, regex: str, topic_names: TopicNames) -> frozenset[str]:
        """Raises InvalidRegularExpression."""
        cached = self._get_or_compile(regex)
        if cached.topic_names is not topic_names:
            new_matches = filter(cached.matcher, self._added_topic_names(topic_names, cached))
            cached = self._cache[regex] = cached.with_topic_names(topic_names, new_matches)
        return cached.matching_topics

    def exceeds_inline_limit(self, regexes: Iterable[str], topic_names: TopicNames) -> bool:
        """All of them together.  Not so those that are refused at once."""
        count = 0
        for regex in regexes:
            try:
                cached = self._get_or_compile(regex)
            except InvalidRegularExpression:
                continue
            if cached.topic_names is not topic_names:
                count += 1 + len(self._added_topic_names(topic_names, cached))
            if count > INLINE_ENTRIES_MAX:
                return True
        return False

    async def match_sliced(
        self, regex: str, topic_names: TopicNames, time_slice: TimeSlice
    ) -> None:
        """After that, asking is quick.  One that is refused is refused to whoever asks then."""
        async with self._locks.setdefault(regex, asyncio.Lock()):
            try:
                cached, new_matches = self._get_or_compile(regex), []
            except InvalidRegularExpression:
                return
            if cached.topic_names is topic_names:
                return  # somebody else was at it
            for name in self._added_topic_names(topic_names, cached):
                if cached.matcher(name):
                    new_matches.append(name)
                if time_slice.is_used_up:
                    await time_slice.yield_to_loop()
            self._cache[regex] = cached.with_topic_names(topic_names, new_matches)
        if time_slice.is_used_up:
            await time_slice.yield_to_loop()

    def _get_or_compile(self, regex: str) -> _CachedMatches:
        cached = self._cache.get(regex)
        if cached is None:
            cached = self._cache[regex] = _CachedMatches(
                compile_regex(regex), _NO_TOPIC_NAMES, frozenset()
            )
        return cached

    def _added_topic_names(self, topic_names: TopicNames, cached: _CachedMatches) -> Set[str]:
        before, after, added = self._last_difference
        if before is not cached.topic_names or after is not topic_names:
            added = topic_names.keys() - cached.topic_names.keys()
            self._last_difference = (cached.topic_names, topic_names, added)
        return added
