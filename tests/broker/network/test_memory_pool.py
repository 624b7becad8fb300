"""A bound on bytes, and a queue before it."""

from collections import deque

from odradek.broker.network.request_memory import RequestMemory


class Scene:
    def __init__(self, bytes_max, requests_max=-1):
        self._ready = deque()
        self.memory = RequestMemory(bytes_max, self._ready.append, requests_max=requests_max)
        self.called = []

    def wait(self, name, then=lambda: None):
        self.memory.wait(lambda: (self.called.append(name), then()))

    def run(self):
        while self._ready:
            self._ready.popleft()()


def test_without_a_bound_there_is_always_room():
    memory = RequestMemory(-1, None)
    memory.take(1 << 60)
    assert not memory.is_exhausted


def test_one_request_may_be_larger_than_the_bound_but_nothing_comes_beside_it():
    memory = RequestMemory(10, None)
    memory.take(9)
    assert not memory.is_exhausted
    memory.take(1000)
    assert memory.is_exhausted
    memory.give_back(1000)
    assert not memory.is_exhausted


def test_requests_in_progress_have_a_bound_of_their_own():
    scene = Scene(-1, requests_max=2)
    scene.memory.begin()
    assert not scene.memory.is_exhausted
    scene.memory.begin()
    assert scene.memory.is_exhausted
    scene.wait("a")
    scene.run()
    assert scene.called == []
    scene.memory.end()
    scene.run()
    assert scene.called == ["a"]


def test_who_waits_is_called_in_turn_for_as_long_as_there_is_room():
    scene = Scene(10)
    scene.memory.take(10)
    for name in "abc":
        scene.wait(name, then=lambda: scene.memory.take(5))
    scene.run()
    assert scene.called == []
    scene.memory.give_back(10)
    assert scene.called == []
    scene.run()
    assert scene.called == ["a", "b"]
    scene.memory.give_back(5)
    scene.run()
    assert scene.called == ["a", "b", "c"]


def test_who_waits_although_there_is_room_is_called():
    scene = Scene(10)
    scene.wait("a")
    scene.run()
    assert scene.called == ["a"]


def test_who_finds_too_little_waits_behind_the_others():
    scene = Scene(10)
    scene.memory.take(10)
    scene.wait("a", then=lambda: scene.wait("a again"))
    scene.wait("b")
    scene.memory.give_back(10)
    scene.run()
    assert scene.called[:2] == ["a", "b"]
