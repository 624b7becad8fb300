"""Tests of broker/replicas/controller_fence.py."""

import pytest

from odradek.broker.replicas.controller_fence import UNKNOWN_BROKER_EPOCH, ControllerFence
from odradek.protocol.errors import StaleBrokerEpoch, StaleControllerEpoch


def fence(broker_epoch=5):
    return ControllerFence(lambda: broker_epoch)


def test_every_controller_is_newer_than_none():
    fence().check(controller_epoch=0, broker_epoch=5)


def test_an_earlier_controller_is_refused():
    fenced = fence()
    fenced.check(controller_epoch=3, broker_epoch=5)
    with pytest.raises(StaleControllerEpoch):
        fenced.check(controller_epoch=2, broker_epoch=5)
    assert fenced.controller_epoch == 3


@pytest.mark.parametrize("epoch", [3, 4])
def test_the_same_and_later_controllers_are_obeyed(epoch):
    fenced = fence()
    fenced.check(controller_epoch=3, broker_epoch=5)
    fenced.check(controller_epoch=epoch, broker_epoch=5)
    assert fenced.controller_epoch == epoch


def test_what_was_meant_for_an_earlier_life_is_refused():
    fenced = fence(broker_epoch=5)
    with pytest.raises(StaleBrokerEpoch):
        fenced.check(controller_epoch=3, broker_epoch=4)
    assert fenced.controller_epoch == 0


@pytest.mark.parametrize("epoch", [5, 6, UNKNOWN_BROKER_EPOCH])
def test_what_is_meant_for_this_life_or_a_later_one_or_does_not_say_is_obeyed(epoch):
    fence(broker_epoch=5).check(controller_epoch=1, broker_epoch=epoch)


def test_the_life_is_the_one_of_now():
    epochs = [5, 7]
    fenced = ControllerFence(lambda: epochs.pop(0))
    fenced.check(controller_epoch=1, broker_epoch=6)
    with pytest.raises(StaleBrokerEpoch):
        fenced.check(controller_epoch=1, broker_epoch=6)


def test_a_life_that_is_over_is_the_first_reason():
    fenced = fence(broker_epoch=5)
    fenced.check(controller_epoch=3, broker_epoch=5)
    with pytest.raises(StaleBrokerEpoch):
        fenced.check(controller_epoch=2, broker_epoch=4)
