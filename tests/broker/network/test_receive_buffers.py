"""Buffers for frames: pooled, shared or mapped."""

import pytest

from odradek.broker.network.receive_buffers import (
    POOL_BYTES_MAX,
    POOLED_BUFFER_BYTES_MAX,
    SHARED_BYTES,
    ReceiveBuffers,
)


@pytest.mark.parametrize("size", [4, SHARED_BYTES - 1, SHARED_BYTES, SHARED_BYTES + 1, 1 << 20])
def test_buffer_is_large_enough_and_writable(size):
    buffer = ReceiveBuffers().allocate(size)
    assert len(buffer) >= size
    buffer[:4] = b"abcd"


def test_detached_shared_buffer_is_replaced():
    buffers = ReceiveBuffers()
    detached = buffers.detach_shared()
    assert buffers.shared is not detached
    second = buffers.detach_shared()
    buffers.release(detached)
    buffers.detach_shared()
    assert buffers.shared is detached
    assert second is not detached


def test_pool_has_a_maximum_size():
    buffers = ReceiveBuffers()
    allocated = [buffers.allocate(1 << 20) for _ in range(20)]
    for buffer in allocated:
        buffers.release(buffer)
    assert buffers._free_bytes == POOL_BYTES_MAX
    reallocated = [buffers.allocate(1 << 20) for _ in range(20)]
    assert (
        len([buffer for buffer in reallocated if any(buffer is pooled for pooled in allocated)])
        == 8
    )
    assert buffers._free_bytes == 0


def test_very_large_buffer_is_exact_and_not_pooled():
    buffers = ReceiveBuffers()
    size = POOLED_BUFFER_BYTES_MAX + 5
    large = buffers.allocate(size)
    assert len(large) == size
    buffers.release(large)
    assert buffers._free_bytes == 0


def test_announced_bytes_that_never_arrive_take_no_memory():
    def resident_kb():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    buffers = ReceiveBuffers()
    before = resident_kb()
    announced = [buffers.allocate(100 << 20) for _ in range(50)]
    assert resident_kb() - before < 5_000
    del announced
