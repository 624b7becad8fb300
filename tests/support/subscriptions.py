"""Short ways to write what assignors are given, and what they must keep to."""

from collections import Counter
from collections.abc import Mapping

from hypothesis import strategies as st

from odradek.broker.groups.consumer.assignor import Assignor, Subscriber
from odradek.broker.groups.consumer.partitions import Partitions, topic_partitions
from odradek.protocol.types import Uuid


def topic_id(number: int) -> Uuid:
    return Uuid(bytes(15) + bytes([number]))


A, B, C = map(topic_id, (1, 2, 3))


def partitions(topic: Uuid, *numbers: int) -> Partitions:
    return frozenset(topic_partitions(topic, numbers))


def subscriber(
    *topics: Uuid, has: Partitions = frozenset(), instance_id: str | None = None
) -> Subscriber:
    return Subscriber(frozenset(topics), has, instance_id)


def with_their_own(
    subscribers: Mapping[str, Subscriber], assignment: Mapping[str, Partitions]
) -> dict[str, Subscriber]:
    """The same members, who now have what was assigned."""
    return {
        member: Subscriber(
            each.subscribed_topic_ids, assignment.get(member, frozenset()), each.instance_id
        )
        for member, each in subscribers.items()
    }


def check_complete(
    subscribers: Mapping[str, Subscriber],
    partition_counts: Mapping[Uuid, int],
    assignment: Mapping[str, Partitions],
) -> None:
    """Every partition of a topic subscribed to has one member, and that one subscribes to it."""
    assert assignment.keys() == subscribers.keys()
    given = Counter(each for theirs in assignment.values() for each in theirs)
    topics = {topic for each in subscribers.values() for topic in each.subscribed_topic_ids}
    assert given == Counter(
        (topic, number) for topic in topics for number in range(partition_counts[topic])
    )
    for member, theirs in assignment.items():
        assert {topic for topic, _ in theirs} <= subscribers[member].subscribed_topic_ids


MEMBERS = [f"m{number}" for number in range(6)]
TOPICS = [topic_id(number) for number in range(1, 6)]


def partition_counts() -> st.SearchStrategy[dict[Uuid, int]]:
    return st.fixed_dictionaries({topic: st.integers(1, 7) for topic in TOPICS})


@st.composite
def groups(draw: st.DrawFn, *, same: bool = False) -> dict[str, Subscriber]:
    """Members with any subscriptions, or with the same, who have any partitions between them."""
    members = draw(st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True))
    topics = st.frozensets(st.sampled_from(TOPICS))
    shared = draw(topics)
    owners = draw(
        st.dictionaries(
            st.tuples(st.sampled_from(TOPICS), st.integers(0, 8)), st.sampled_from(members)
        )
    )
    return {
        member: Subscriber(
            shared if same else draw(topics),
            frozenset(each for each, owner in owners.items() if owner == member),
        )
        for member in members
    }


def assigned_by(assign: Assignor, subscribers, counts) -> dict[str, Partitions]:
    assignment = assign(subscribers, counts)
    check_complete(subscribers, counts, assignment)
    return assignment
