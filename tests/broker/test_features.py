"""The features of a cluster in ApiVersions and UpdateFeatures, on each store."""

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


def api_versions(broker, version=4):
    return call(broker.address, ApiKey.API_VERSIONS, version, **OWN_NAME)


def level(broker):
    """Returns the finalized level of transaction.version and the epoch."""
    response = api_versions(broker)
    levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
    assert set(levels) <= {"transaction.version"}
    return levels.get("transaction.version", 0), response.finalized_features_epoch


def update(broker, level, kind, *, version=2, **fields):
    feature_update = {
        "feature": "transaction.version",
        "max_version_level": level,
        "upgrade_type": kind,
    }
    response = call(
        broker.address, ApiKey.UPDATE_FEATURES, version, feature_updates=[feature_update], **fields
    )
    codes = [response.error_code, *(result.error_code for result in response.results)]
    return ErrorCode.for_code(next(filter(None, codes), 0)).name


def test_new_cluster_has_finalized_features_on_the_embedded_store_only(broker):
    assert level(broker) == ((2, 0) if is_embedded(broker) else (0, 0))


@pytest.mark.parametrize(("version", "names"), [(3, []), (4, ["transaction.version"])])
def test_supported_features_are_sent_from_version_4_on(broker, version, names):
    supported = api_versions(broker, version).supported_features
    assert [feature.name for feature in supported] == names
    assert [(feature.min_version, feature.max_version) for feature in supported] == [(0, 2)] * len(
        names
    )


def test_levels_change_by_request_and_survive_a_restart(broker):
    initial, epoch = level(broker)
    if initial:
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


def test_rejected_or_validate_only_update_changes_nothing(broker):
    before = level(broker)
    assert update(broker, 3, UPGRADE) == "INVALID_UPDATE_VERSION"
    assert update(broker, 3, UPGRADE, version=1) == "INVALID_REQUEST"
    new_level, kind = (1, SAFE_DOWNGRADE) if before[0] else (1, UPGRADE)
    assert update(broker, new_level, kind, validate_only=True) == "NONE"
    assert level(broker) == before
