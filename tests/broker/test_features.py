"""The features of a cluster, as clients are told of them and tools change them, on each store."""

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from tests.support.broker_process import BrokerProcess
from tests.support.broker_stores import new_store
from tests.support.wire_client import call

__all__ = ["new_store"]

UPGRADE, SAFE_DOWNGRADE = 1, 2
OWN_NAME = {"client_software_name": "wire-client", "client_software_version": "1"}


@pytest.fixture
def broker(tmp_path, new_store):
    with BrokerProcess(tmp_path / "logs", *new_store()).start() as running:
        yield running


def is_embedded(broker):
    return (broker.data_dir / "metadata.sqlite").exists()


def told(broker, version=4):
    return call(broker.address, ApiKey.API_VERSIONS, version, **OWN_NAME)


def level(broker):
    """Of transactions, and the epoch."""
    answer = told(broker)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    assert set(levels) <= {"transaction.version"}
    return levels.get("transaction.version", 0), answer.finalized_features_epoch


def update(broker, wanted, kind, *, version=2, **fields):
    asked = {"feature": "transaction.version", "max_version_level": wanted, "upgrade_type": kind}
    answer = call(
        broker.address, ApiKey.UPDATE_FEATURES, version, feature_updates=[asked], **fields
    )
    codes = [answer.error_code, *(each.error_code for each in answer.results)]
    return ErrorCode.of(next(filter(None, codes), 0)).name


def test_a_new_cluster_has_them_on_the_embedded_store_only(broker):
    assert level(broker) == ((2, 0) if is_embedded(broker) else (0, 0))


@pytest.mark.parametrize(("version", "names"), [(3, []), (4, ["transaction.version"])])
def test_what_is_supported_is_told_to_those_who_can_read_it(broker, version, names):
    supported = told(broker, version).supported_features
    assert [each.name for each in supported] == names
    assert [(each.min_version, each.max_version) for each in supported] == [(0, 2)] * len(names)


def test_levels_change_by_request_and_are_there_after_a_restart(broker):
    begun, epoch = level(broker)
    if begun:
        assert update(broker, 0, SAFE_DOWNGRADE) == "NONE"
        epoch += 1
    assert level(broker) == (0, epoch)
    assert update(broker, 1, UPGRADE, version=1) == "NONE"
    assert update(broker, 2, UPGRADE, version=1) == "NONE"
    assert level(broker) == (2, epoch + 2)
    broker.restart()
    assert level(broker) == (2, epoch + 2)
    assert update(broker, 0, SAFE_DOWNGRADE) == "NONE"
    broker.restart()
    assert level(broker) == (0, epoch + 3)


def test_what_is_refused_or_only_judged_changes_nothing(broker):
    before = level(broker)
    assert update(broker, 3, UPGRADE) == "INVALID_UPDATE_VERSION"
    assert update(broker, 3, UPGRADE, version=1) == "INVALID_REQUEST"
    wanted, kind = (1, SAFE_DOWNGRADE) if before[0] else (1, UPGRADE)
    assert update(broker, wanted, kind, validate_only=True) == "NONE"
    assert level(broker) == before
