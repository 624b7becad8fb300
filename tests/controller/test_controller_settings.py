"""Tests of controller/controller_settings.py."""

import pytest

from odradek.config.definition import Layer, SettingError
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.request_versions import LATEST, InterBrokerVersion


def read(**settings):
    named = {name.replace("_", "."): text for name, text in settings.items()}
    return ControllerSettings.read({Layer.FILE: named})


def test_the_defaults_are_kafkas():
    settings = read()
    assert settings.spoken == LATEST
    assert settings.auto_leader_rebalance_enable
    assert settings.leader_imbalance_check_interval_seconds == 300
    assert settings.leader_imbalance_per_broker_percentage == 10
    assert settings.delete_topic_enable
    assert not settings.unclean_leader_election_enable
    assert settings.reserved_broker_max_id == 1000


def test_brokers_can_be_made_to_speak_an_older_version():
    assert read(inter_broker_protocol_version="2.8").spoken == InterBrokerVersion((2, 8), 1)


@pytest.mark.parametrize("version", ["", "4.7", "3.9-IV9", "new"])
def test_a_version_that_never_was_is_refused(version):
    with pytest.raises(SettingError, match=r"inter\.broker\.protocol\.version"):
        read(inter_broker_protocol_version=version)
