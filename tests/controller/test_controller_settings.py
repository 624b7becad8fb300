"""Tests of controller/controller_settings.py."""

import pytest

from odradek.config.definition import ConfigSource, SettingError
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.metadata_version import LATEST, MetadataVersion


def read(**settings):
    by_name = {name.replace("_", "."): text for name, text in settings.items()}
    return ControllerSettings.read({ConfigSource.FILE: by_name})


def test_defaults_equal_kafkas():
    settings = read()
    assert settings.metadata_version == LATEST
    assert settings.auto_leader_rebalance_enable
    assert settings.leader_imbalance_check_interval_seconds == 300
    assert settings.leader_imbalance_per_broker_percentage == 10
    assert settings.delete_topic_enable
    assert not settings.unclean_leader_election_enable
    assert settings.reserved_broker_max_id == 1000


def test_inter_broker_protocol_version_sets_the_metadata_version():
    assert read(inter_broker_protocol_version="2.8").metadata_version == MetadataVersion((2, 8), 1)


@pytest.mark.parametrize("version", ["", "4.7", "3.9-IV9", "new"])
def test_unknown_inter_broker_protocol_version_is_rejected(version):
    with pytest.raises(SettingError, match=r"inter\.broker\.protocol\.version"):
        read(inter_broker_protocol_version=version)
