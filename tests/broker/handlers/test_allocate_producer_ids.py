"""Tests of broker/handlers/allocate_producer_ids.py."""

import pytest

from odradek.broker.handlers import allocate_producer_ids
from odradek.controller.store.payloads.cluster import ProducerIdsBlock
from odradek.protocol.api.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.errors import NotController
from tests.support.calls import answer
from tests.support.fake_controller import FakeController


def test_response_holds_the_start_and_length_of_the_allocated_block():
    controller = FakeController(ProducerIdsBlock(4, block_start=1000, block_end=1999))
    request = AllocateProducerIdsRequest(broker_id=4, broker_epoch=9)
    response = answer(allocate_producer_ids.handle, controller, request)
    assert controller.asked == ((4,), {"broker_epoch": 9})
    assert (response.error_code, response.producer_id_start) == (0, 1000)
    assert response.producer_id_len == 1000


def test_not_controller_error_is_raised():
    controller = FakeController(NotController())
    with pytest.raises(NotController):
        answer(allocate_producer_ids.handle, controller, AllocateProducerIdsRequest(broker_id=1))
