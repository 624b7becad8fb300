"""Members that tests of groups start: what they are refused while they rebalance is not lost."""

import pytest

from tests.support import group_member_program
from tests.support.group_member_program import Uncommitted, consume
from tests.support.member_consumer import MemberOptions

ONE, TWO = ("t", 0), ("t", 1)


class Scripted:
    """A consumer to which this happens, poll by poll; then it is closed."""

    def __init__(self, left, orders, *polls):
        self._left = left
        self._orders = orders
        self._polls = [*polls]
        self._refusals = []
        self.commits = []

    def poll(self):
        events, records, refusals = self._polls.pop(0)
        self._refusals = [*refusals]
        for event, *places in events:
            self._left.tell(event, partitions=[[*place] for place in places])
        if not self._polls:
            self._orders.put(["close"])
        return [(*place, offset, "value") for place, offset in records]

    def commit(self, offsets, told):
        self.commits.append(dict(offsets))
        told(self._refusals.pop() if self._refusals else None)


@pytest.fixture
def commits(monkeypatch):
    """What a member of an assignor commits when this happens to it."""

    def committed(assignor, *polls):
        received = group_member_program.queue.SimpleQueue()
        monkeypatch.setattr(group_member_program, "orders", lambda: received)
        left = Uncommitted(is_kept=assignor == "cooperative")
        consumer = Scripted(left, received, *polls)
        options = MemberOptions(group="g", topics=["t"], assignor=assignor)
        consume(consumer, options, lambda records: None, left)
        return consumer.commits

    return committed


ASSIGNED = [("assigned", ONE, TWO)]
REFUSED = ["ILLEGAL_GENERATION"]


def test_what_a_cooperative_member_is_refused_is_committed_when_nothing_else_comes(commits):
    once = commits(
        "cooperative",
        (ASSIGNED, [(ONE, 4)], REFUSED),
        ([], [], REFUSED),
        ([], [], []),
        ([], [], []),
    )
    assert once == [{ONE: 5}, {ONE: 5}, {ONE: 5}]


def test_it_goes_with_what_is_read_meanwhile(commits):
    more = [(ONE, 5), (TWO, 0)]
    together = commits("cooperative", (ASSIGNED, [(ONE, 4)], REFUSED), ([], more, []))
    assert together == [{ONE: 5}, {ONE: 6, TWO: 1}]


@pytest.mark.parametrize("event", ["revoked", "assigned"])
def test_what_it_has_given_up_is_read_by_whoever_gets_it(commits, event):
    read = [(ONE, 4), (TWO, 2)]
    left = commits("cooperative", (ASSIGNED, read, REFUSED), ([(event, ONE)], [], []))
    assert left == [{ONE: 5, TWO: 3}, {TWO: 3}]


def test_who_gives_up_everything_reads_it_again(commits):
    assert commits("range", (ASSIGNED, [(ONE, 4)], REFUSED), ([], [], [])) == [{ONE: 5}]
