"""Tests of broker/replicas/controller_fence.py."""

import pytest

from odradek.broker.replicas.controller_fence import UNKNOWN_BROKER_EPOCH, ControllerFence
from odradek.protocol.errors import StaleBrokerEpoch, StaleControllerEpoch


def fence(broker_epoch=5):
    return ControllerFence(lambda: broker_epoch)


def test_first_controller_epoch_is_accepted():
    fence().check(controller_epoch=0, broker_epoch=5)


def test_older_controller_epoch_is_rejected():
    fenced = fence()
    fenced.check(controller_epoch=3, broker_epoch=5)
    with pytest.raises(StaleControllerEpoch):
        fenced.check(controller_epoch=2, broker_epoch=5)
    assert fenced.controller_epoch == 3


@pytest.mark.parametrize("epoch", [3, 4])
def test_same_and_newer_controller_epochs_are_accepted(epoch):
    fenced = fence()
    fenced.check(controller_epoch=3, broker_epoch=5)
    fenced.check(controller_epoch=epoch, broker_epoch=5)
    assert fenced.controller_epoch == epoch


def test_older_broker_epoch_is_rejected():
    fenced = fence(broker_epoch=5)
    with pytest.raises(StaleBrokerEpoch):
        fenced.check(controller_epoch=3, broker_epoch=4)
    assert fenced.controller_epoch == 0


@pytest.mark.parametrize("epoch", [5, 6, UNKNOWN_BROKER_EPOCH])
def test_current_newer_and_unknown_broker_epochs_are_accepted(epoch):
    fence(broker_epoch=5).check(controller_epoch=1, broker_epoch=epoch)


def test_broker_epoch_is_read_at_each_check():
    epochs = [5, 7]
    fenced = ControllerFence(lambda: epochs.pop(0))
    fenced.check(controller_epoch=1, broker_epoch=6)
    with pytest.raises(StaleBrokerEpoch):
        fenced.check(controller_epoch=1, broker_epoch=6)


def test_stale_broker_epoch_is_reported_before_a_stale_controller_epoch():
    fenced = fence(broker_epoch=5)
    fenced.check(controller_epoch=3, broker_epoch=5)
    with pytest.raises(StaleBrokerEpoch):
        fenced.check(controller_epoch=2, broker_epoch=4)
