"""Group configs take effect in a running broker and after a restart, on each store."""

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from tests.support.broker_process import BrokerProcess
from tests.support.broker_stores import new_store
from tests.support.wire_client import call

__all__ = ["new_store"]

GROUP, SET = 32, 0
ATTEMPTS_MAX = 500
NOT_YET = {ErrorCode.COORDINATOR_NOT_AVAILABLE.code, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.code}


@pytest.fixture
def broker(new_store, tmp_path):
    with BrokerProcess(tmp_path / "logs", *new_store()).start() as running:
        yield running


def joined_interval_ms(address, member_id):
    """Joins a group and returns the heartbeat interval; retries until there is a coordinator."""
    for _ in range(ATTEMPTS_MAX):
        call(address, ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
        response = call(
            address,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id="g",
            member_id=member_id,
            member_epoch=0,
            rebalance_timeout_ms=5_000,
            topic_partitions=[],
            subscribed_topic_names=["t"],
        )
        if response.error_code not in NOT_YET:
            break
    assert response.error_code == ErrorCode.NONE.code, response
    return response.heartbeat_interval_ms


def test_heartbeat_interval_of_a_group_is_sent_to_its_members(broker):
    address = broker.address
    assert joined_interval_ms(address, "m0") == 5_000
    config = {"name": "consumer.heartbeat.interval.ms", "config_operation": SET, "value": "9000"}
    resource = {"resource_type": GROUP, "resource_name": "g", "configs": [config]}
    call(address, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    # The broker learns of the change a moment later.
    intervals = (joined_interval_ms(address, f"m{number}") for number in range(1, ATTEMPTS_MAX))
    assert 9_000 in intervals
    broker.stop()
    broker.start()
    assert joined_interval_ms(address, "after") == 9_000
