"""Between threads: a bound, turns, and nothing lost.  Here all threads are one."""

import asyncio
from collections import deque

import pytest

from odradek.broker.call import Peer
from odradek.broker.logs import TRACE
from odradek.broker.network.request_channel import TAKEN_PER_TURN, RequestChannel
from odradek.broker.network.surroundings import HandOver


class Loop:
    """Calls what it was given when the test says so."""

    def __init__(self):
        self.ready = deque()

    def call_soon_threadsafe(self, callback, *arguments):
        self.ready.append((callback, arguments))

    def turn(self):
        callback, arguments = self.ready.popleft()
        callback(*arguments)


class Home:
    def __init__(self):
        self.delivered = []
        self.resumed = []

    def deliver_soon(self, connection_id, outcome):
        self.delivered.append((connection_id, outcome))

    def resume_soon(self, connection_id):
        self.resumed.append(connection_id)


def peer(number):
    return Peer(str(number), "host", "PLAINTEXT")


def channel(loop, answerer=lambda frame, peer: [frame], requests_max=500):
    return RequestChannel(answerer, pending=None, loop=loop, requests_max=requests_max)


def test_requests_are_answered_in_the_order_in_which_they_came():
    loop, home = Loop(), Home()
    requests = channel(loop)
    for number in range(3):
        assert requests.hand_over(home, b"%d" % number, peer(number)) is HandOver.TAKEN
    assert len(loop.ready) == 1
    loop.turn()
    assert home.delivered == [("0", [b"0"]), ("1", [b"1"]), ("2", [b"2"])]


@pytest.mark.parametrize("is_wanted", [True, False])
def test_when_it_began_to_wait_is_noted_for_whoever_wants_to_know(is_wanted, caplog):
    caplog.set_level(TRACE if is_wanted else TRACE + 1, "odradek.request")
    one = peer(0)
    channel(Loop()).hand_over(Home(), b"x", one)
    assert bool(one.queued_at) is is_wanted


def test_beyond_the_bound_connections_wait_and_are_called_in_turn():
    loop, home = Loop(), Home()
    requests = channel(loop, requests_max=2)
    taken = [requests.hand_over(home, b"x", peer(number)) for number in range(5)]
    assert taken == [HandOver.TAKEN] * 2 + [HandOver.NO_ROOM] * 3
    loop.turn()
    assert home.resumed == ["2", "3"]
    assert [requests.hand_over(home, b"x", peer(number)) for number in (2, 3)] == taken[:2]
    loop.turn()
    assert home.resumed == ["2", "3", "4"]


def test_who_finds_no_room_just_as_all_was_taken_up_is_called_too():
    loop, home = Loop(), Home()
    requests = channel(loop, requests_max=1)

    class TooLate(deque):
        def append(self, waiting):
            loop.turn()
            super().append(waiting)

    requests._waiting = TooLate()
    requests.hand_over(home, b"x", peer(0))
    assert requests.hand_over(home, b"x", peer(1)) is HandOver.NO_ROOM
    assert home.resumed == []
    loop.turn()
    assert home.resumed == ["1"]


def test_the_control_plane_waits_for_one_turn_of_the_others_and_no_longer():
    loop, home = Loop(), Home()
    order = []
    data = channel(loop, lambda frame, peer: order.append("data"))
    control = channel(loop, lambda frame, peer: order.append("control"), requests_max=20)
    for number in range(400):
        data.hand_over(home, b"x", peer(number))
    control.hand_over(home, b"x", peer(400))
    while loop.ready:
        loop.turn()
    assert order.index("control") == TAKEN_PER_TURN
    assert len(order) == 401


def test_a_closed_channel_forgets_what_it_had():
    loop, home = Loop(), Home()
    requests = channel(loop, requests_max=1)
    for number in range(2):
        requests.hand_over(home, b"x", peer(number))
    requests.close()
    loop.turn()
    assert (home.delivered, home.resumed) == ([], [])


async def test_what_is_waited_for_takes_no_place_in_the_queue():
    waiting = []

    class Pending:
        def wait(self, answer, peer, deliver):
            waiting.append(answer)

    loop, home = Loop(), Home()
    futures = [asyncio.get_running_loop().create_future() for _ in range(10)]
    requests = RequestChannel(
        lambda frame, peer: futures[int(peer.connection_id)],
        pending=Pending(),
        loop=loop,
        requests_max=1,
    )
    for number in range(10):
        assert requests.hand_over(home, b"x", peer(number)) is HandOver.TAKEN
        loop.turn()
    assert waiting == futures
