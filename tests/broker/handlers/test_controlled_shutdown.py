"""Tests of broker/handlers/controlled_shutdown.py."""

import pytest

from odradek.broker.handlers import controlled_shutdown
from odradek.protocol.api.controlled_shutdown import ControlledShutdownRequest
from odradek.protocol.errors import BrokerNotAvailable, NotController, StaleControllerEpoch
from odradek.protocol.types import TopicPartition
from tests.support.calls import answer, versions_of
from tests.support.fake_controller import FakeController

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize("version", versions_of(ControlledShutdownRequest))
def test_partitions_that_the_broker_still_leads_are_returned(version):
    controller = FakeController((T0, T1))
    request = ControlledShutdownRequest(broker_id=4, broker_epoch=9)
    response = answer(controlled_shutdown.handle, controller, request, version=version)
    assert controller.asked == ((4,), {"broker_epoch": 9})
    assert response.error_code == 0
    assert [(each.topic_name, each.partition_index) for each in response.remaining_partitions] == [
        ("t", 0),
        ("t", 1),
    ]


def test_not_controller_is_mapped_to_stale_controller_epoch():
    request = ControlledShutdownRequest(broker_id=4)
    with pytest.raises(StaleControllerEpoch):
        answer(controlled_shutdown.handle, FakeController(NotController()), request)
    with pytest.raises(BrokerNotAvailable):
        answer(controlled_shutdown.handle, FakeController(BrokerNotAvailable()), request)
