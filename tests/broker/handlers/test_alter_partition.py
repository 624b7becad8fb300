"""Tests of broker/handlers/alter_partition.py."""

import pytest

from odradek.broker.handlers import alter_partition
from odradek.protocol.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.protocol.errors import NotController
from tests.support.calls import answer, versions_of
from tests.support.fake_controller import FakeController


@pytest.mark.parametrize("version", versions_of(AlterPartitionRequest))
def test_request_is_passed_to_the_controller(version):
    controller = FakeController(AlterPartitionResponse(throttle_time_ms=0, error_code=0, topics=[]))
    request = AlterPartitionRequest(broker_id=4, broker_epoch=9, topics=[])
    response = answer(alter_partition.handle, controller, request, version=version)
    assert controller.asked == ((request,), {"version": version})
    assert response.error_code == 0


def test_not_controller_error_is_raised():
    controller = FakeController(NotController())
    with pytest.raises(NotController):
        answer(alter_partition.handle, controller, AlterPartitionRequest(broker_id=1, topics=[]))
