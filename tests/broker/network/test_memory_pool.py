"""The bound on the bytes and the number of requests, and the callbacks that wait for it."""

from collections import deque

from odradek.broker.network.memory_pool import MemoryPool


class Scene:
    def __init__(self, bytes_max, requests_max=-1):
        self._ready = deque()
        self.memory = MemoryPool(bytes_max, self._ready.append, requests_max=requests_max)
        self.called = []

    def wait(self, name, then=lambda: None):
        self.memory.call_when_available(lambda: (self.called.append(name), then()))

    def run(self):
        while self._ready:
            self._ready.popleft()()


def test_pool_without_bound_is_never_exhausted():
    memory = MemoryPool(-1, None)
    memory.reserve(1 << 60)
    assert not memory.is_exhausted


def test_request_may_exceed_the_bound_but_then_the_pool_is_exhausted():
    memory = MemoryPool(10, None)
    memory.reserve(9)
    assert not memory.is_exhausted
    memory.reserve(1000)
    assert memory.is_exhausted
    memory.release(1000)
    assert not memory.is_exhausted


def test_requests_in_progress_have_their_own_bound():
    scene = Scene(-1, requests_max=2)
    scene.memory.begin_request()
    assert not scene.memory.is_exhausted
    scene.memory.begin_request()
    assert scene.memory.is_exhausted
    scene.wait("a")
    scene.run()
    assert scene.called == []
    scene.memory.end_request()
    scene.run()
    assert scene.called == ["a"]


def test_callbacks_run_in_order_while_memory_is_available():
    scene = Scene(10)
    scene.memory.reserve(10)
    for name in "abc":
        scene.wait(name, then=lambda: scene.memory.reserve(5))
    scene.run()
    assert scene.called == []
    scene.memory.release(10)
    assert scene.called == []
    scene.run()
    assert scene.called == ["a", "b"]
    scene.memory.release(5)
    scene.run()
    assert scene.called == ["a", "b", "c"]


def test_callback_runs_if_memory_is_available_already():
    scene = Scene(10)
    scene.wait("a")
    scene.run()
    assert scene.called == ["a"]


def test_callback_that_waits_again_is_last():
    scene = Scene(10)
    scene.memory.reserve(10)
    scene.wait("a", then=lambda: scene.wait("a again"))
    scene.wait("b")
    scene.memory.release(10)
    scene.run()
    assert scene.called[:2] == ["a", "b"]
