"""Tests of controller/leadership.py."""

from dataclasses import replace

from odradek.controller.leadership import Leadership

NOW = Leadership(leader=1, leader_epoch=4, isr=(1, 2), controller_epoch=3, partition_epoch=7)


def test_another_leader_begins_another_epoch():
    then = NOW.led_by(2, (2,), is_recovering=True)
    assert then == replace(NOW, leader=2, leader_epoch=5, isr=(2,), is_recovering=True)


def test_the_same_leader_may_begin_another_epoch():
    assert NOW.in_new_epoch() == replace(NOW, leader_epoch=5)


def test_a_leader_changes_its_isr_within_its_epoch():
    assert NOW.with_isr((1, 2, 3)) == replace(NOW, isr=(1, 2, 3))
