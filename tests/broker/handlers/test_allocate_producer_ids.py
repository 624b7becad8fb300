"""Tests of broker/handlers/allocate_producer_ids.py."""

import pytest

from odradek.broker.handlers import allocate_producer_ids
from odradek.controller.store.payloads.cluster import ProducerIdBlock
from odradek.protocol.api.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.errors import NotController
from tests.support.calls import answer
from tests.support.fake_controller import FakeController


def test_a_block_of_producer_ids_is_told_by_its_start_and_length():
    controller = FakeController(ProducerIdBlock(4, block_start=1000, block_end=1999))
    request = AllocateProducerIdsRequest(broker_id=4, broker_epoch=9)
    answered = answer(allocate_producer_ids.handle, controller, request)
    assert controller.asked == ((4,), {"broker_epoch": 9})
    assert (answered.error_code, answered.producer_id_start) == (0, 1000)
    assert answered.producer_id_len == 1000


def test_another_brokers_controller_may_be_in_office():
    controller = FakeController(NotController())
    with pytest.raises(NotController):
        answer(allocate_producer_ids.handle, controller, AllocateProducerIdsRequest(broker_id=1))
