"""Buffers for frames: exact, kept or mapped."""

import pytest

from odradek.broker.network.receive_buffers import (
    KEPT_BYTES_EACH_MAX,
    KEPT_BYTES_MAX,
    SHARED_BYTES,
    ReceiveBuffers,
)


@pytest.mark.parametrize("size", [4, SHARED_BYTES - 1, SHARED_BYTES, SHARED_BYTES + 1, 1 << 20])
def test_a_buffer_is_large_enough_and_can_be_written_to(size):
    buffer = ReceiveBuffers().take(size)
    assert len(buffer) >= size
    buffer[:4] = b"abcd"


def test_the_shared_buffer_is_replaced_when_it_is_lent():
    buffers = ReceiveBuffers()
    lent = buffers.lend_shared()
    assert buffers.shared is not lent
    second = buffers.lend_shared()
    buffers.give_back(lent)
    buffers.lend_shared()
    assert buffers.shared is lent
    assert second is not lent


def test_only_so_much_is_kept():
    buffers = ReceiveBuffers()
    taken = [buffers.take(1 << 20) for _ in range(20)]
    for buffer in taken:
        buffers.give_back(buffer)
    assert buffers._spare_bytes == KEPT_BYTES_MAX
    again = [buffers.take(1 << 20) for _ in range(20)]
    assert len([each for each in again if any(each is one for one in taken)]) == 8
    assert buffers._spare_bytes == 0


def test_the_very_large_is_not_kept_and_no_larger_than_needed():
    buffers = ReceiveBuffers()
    size = KEPT_BYTES_EACH_MAX + 5
    large = buffers.take(size)
    assert len(large) == size
    buffers.give_back(large)
    assert buffers._spare_bytes == 0


def test_much_that_is_announced_and_never_sent_takes_no_memory():
    def resident_kb():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    buffers = ReceiveBuffers()
    before = resident_kb()
    announced = [buffers.take(100 << 20) for _ in range(50)]
    assert resident_kb() - before < 5_000
    del announced
