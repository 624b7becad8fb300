"""Tests of controller/leader_and_isr.py."""

from dataclasses import replace

from odradek.controller.leader_and_isr import LeaderIsrAndControllerEpoch

CURRENT = LeaderIsrAndControllerEpoch(
    leader=1, leader_epoch=4, isr=(1, 2), controller_epoch=3, partition_epoch=7
)


def test_new_leader_increments_the_leader_epoch():
    changed = CURRENT.new_leader_and_isr(2, (2,), is_recovering=True)
    assert changed == replace(CURRENT, leader=2, leader_epoch=5, isr=(2,), is_recovering=True)


def test_new_epoch_keeps_the_leader():
    assert CURRENT.new_epoch() == replace(CURRENT, leader_epoch=5)


def test_with_isr_keeps_the_leader_epoch():
    assert CURRENT.with_isr((1, 2, 3)) == replace(CURRENT, isr=(1, 2, 3))
