"""The topics of the cluster that match a regular expression.  Each name is matched only once.

The cache holds for each regex the matching topics, and the topic names that were matched.  When
topics are created or deleted, only the difference is matched.  If that is much, as for a new regex,
the caller can match in time slices first; concurrent callers share that work.  An entry that was
not used during the last MAX_CACHED_TOPIC_CHANGES changes of topics is removed, since it would keep
the old topics in memory.  If there are too many regexes, those that no group uses are removed.

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

#: An estimate: more than the groups of a broker use.  If they use more, the capacity is twice that.
MAX_CACHED_REGEXES = 1000

#: An estimate: topics rarely change more often between two heartbeats of a member.
MAX_CACHED_TOPIC_CHANGES = 8

#: Topics by name.  Mappings with the same names should be the same object.
TopicNames = Mapping[str, Any]

_NO_TOPIC_NAMES: TopicNames = {}


class _CachedMatches(NamedTuple):
    """``matching_topics`` are those of ``topic_names`` that match."""

    matcher: RegexMatcher
    topic_names: TopicNames
    matching_topics: frozenset[str]

    def with_topic_names(
        self, topic_names: TopicNames, new_matches: Iterable[str]
    ) -> _CachedMatches:
        """Return the entry for ``topic_names``; ``new_matches`` are the matches among new names."""
        retained = [name for name in self.matching_topics if name in topic_names]
        return _CachedMatches(self.matcher, topic_names, frozenset([*retained, *new_matches]))


class TopicRegexCache:
    """The regexes that groups of this broker use or have used recently."""

    def __init__(self) -> None:
        self._cache: dict[str, _CachedMatches] = {}
        self._capacity = MAX_CACHED_REGEXES
        self._recent_topic_names: deque[TopicNames] = deque(maxlen=MAX_CACHED_TOPIC_CHANGES)
        #: The last computed difference, since most entries were matched with the same names.
        self._last_difference: tuple[TopicNames, TopicNames, Set[str]] = (
            _NO_TOPIC_NAMES,
            _NO_TOPIC_NAMES,
            frozenset(),
        )
        #: By regex, held while its names are matched in time slices.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._cache)

    def on_topic_names_changed(self, topic_names: TopicNames) -> None:
        """Start using these topic names, and remove entries that were not used recently."""
        self._recent_topic_names.append(topic_names)
        recent_ids = {id(names) for names in self._recent_topic_names}
        self._cache = {
            regex: cached
            for regex, cached in self._cache.items()
            if id(cached.topic_names) in recent_ids
        }

    @property
    def is_over_capacity(self) -> bool:
        """Whether unused entries should be removed: a member may send a new regex per heartbeat."""
        return len(self._cache) > self._capacity

    def retain_only(self, used_regexes: Container[str]) -> None:
        self._cache = {
            regex: cached for regex, cached in self._cache.items() if regex in used_regexes
        }
        self._capacity = max(MAX_CACHED_REGEXES, 2 * len(self._cache))

    def matching_topics(self, regex: str, topic_names: TopicNames) -> frozenset[str]:
        """Return the matching topics; raise InvalidRegularExpression."""
        cached = self._get_or_compile(regex)
        if cached.topic_names is not topic_names:
            new_matches = filter(cached.matcher, self._added_topic_names(topic_names, cached))
            cached = self._cache[regex] = cached.with_topic_names(topic_names, new_matches)
        return cached.matching_topics

    def exceeds_inline_limit(self, regexes: Iterable[str], topic_names: TopicNames) -> bool:
        """Whether resolving all these regexes takes too long to do inline.

        Invalid regexes do not count: they are rejected at once.
        """
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
        """Match in time slices; ``matching_topics`` is fast afterwards.  Skip an invalid regex."""
        async with self._locks.setdefault(regex, asyncio.Lock()):
            try:
                cached, new_matches = self._get_or_compile(regex), []
            except InvalidRegularExpression:
                return
            if cached.topic_names is topic_names:
                return  # another task has matched it meanwhile
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
