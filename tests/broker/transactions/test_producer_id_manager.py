"""Producer ids from the controller's blocks, and the error response of InitProducerId."""

import asyncio
from types import SimpleNamespace

import pytest

from odradek.broker.handlers import init_producer_id
from odradek.broker.transactions.producer_id_manager import ProducerIdManager
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import CoordinatorLoadInProgress, NotController
from tests.support.calls import called


class Controller:
    """Allocates blocks of three ids."""

    def __init__(self):
        self.blocks = 0

    async def __call__(self):
        start, self.blocks = 3 * self.blocks, self.blocks + 1
        await asyncio.sleep(0)
        return SimpleNamespace(block_start=start, block_end=start + 2)


async def test_concurrent_requests_get_different_ids():
    controller = Controller()
    ids = ProducerIdManager(controller)
    producer_ids = await asyncio.gather(*(ids.generate_producer_id() for _ in range(8)))
    assert sorted(producer_ids) == list(range(8))
    assert controller.blocks == 3


async def test_remaining_id_is_returned_without_waiting():
    ids = ProducerIdManager(Controller())
    assert ids.generate_producer_id_nowait() is None
    assert await ids.generate_producer_id() == 0
    assert [ids.generate_producer_id_nowait() for _ in range(3)] == [1, 2, None]


async def test_failed_allocation_is_retried_by_the_next_request():
    responses = [NotController(), SimpleNamespace(block_start=5, block_end=5)]

    async def allocate():
        response = responses.pop(0)
        if isinstance(response, NotController):
            raise response
        return response

    ids = ProducerIdManager(allocate)
    with pytest.raises(CoordinatorLoadInProgress):
        await ids.generate_producer_id()
    assert await ids.generate_producer_id() == 5


def test_error_response_has_no_producer():
    request = called(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), version=5
    )
    response = init_producer_id.error_response(request, NotController())
    assert (response.producer_id, response.producer_epoch) == (-1, -1)
    assert response.error_code == ErrorCode.NOT_CONTROLLER.code
