"""Ids for producers, from the controller's blocks; and the request that asks for one."""

import asyncio
from types import SimpleNamespace

import pytest

from odradek.broker.handlers import init_producer_id
from odradek.broker.transactions.producer_ids import ProducerIds
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import CoordinatorLoadInProgress, NotController
from tests.support.calls import called


class Controller:
    """Gives away blocks of three."""

    def __init__(self):
        self.blocks = 0

    async def __call__(self):
        start, self.blocks = 3 * self.blocks, self.blocks + 1
        await asyncio.sleep(0)
        return SimpleNamespace(block_start=start, block_end=start + 2)


async def test_no_two_are_alike_however_many_ask_at_once():
    controller = Controller()
    ids = ProducerIds(controller)
    given = await asyncio.gather(*(ids.next() for _ in range(8)))
    assert sorted(given) == list(range(8))
    assert controller.blocks == 3


async def test_one_that_is_left_is_given_without_waiting():
    ids = ProducerIds(Controller())
    assert ids.next_nowait() is None
    assert await ids.next() == 0
    assert [ids.next_nowait() for _ in range(3)] == [1, 2, None]


async def test_a_controller_that_refuses_is_asked_again_by_the_next():
    answers = [NotController(), SimpleNamespace(block_start=5, block_end=5)]

    async def allocate():
        answer = answers.pop(0)
        if isinstance(answer, NotController):
            raise answer
        return answer

    ids = ProducerIds(allocate)
    with pytest.raises(CoordinatorLoadInProgress):
        await ids.next()
    assert await ids.next() == 5


def test_a_refusal_names_no_producer():
    call = called(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), version=5)
    answer = init_producer_id.refused(call, NotController())
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    assert answer.error_code == ErrorCode.NOT_CONTROLLER.code
