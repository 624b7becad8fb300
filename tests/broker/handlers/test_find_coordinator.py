"""FindCoordinator: the broker that coordinates a group or a transactional id."""

import pytest

from odradek.broker.handlers import find_coordinator
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError
from tests.support.calls import as_sent, called, in_the_end, versions_of
from tests.support.group_coordinators import Coordinating


async def find(scene, version, *keys, key_type=0, listener="INSIDE"):
    body = FindCoordinatorRequest(key=keys[0], key_type=key_type, coordinator_keys=list(keys))
    if version < 4:
        body.coordinator_keys = []
    else:
        body.key = ""
    request = called(body, version=version, listener=listener)
    lookups = {find_coordinator.GROUP: scene.lookup, find_coordinator.TRANSACTION: scene.lookup}
    response = as_sent(await complete(find_coordinator.handle(lookups, request)), version=version)
    coordinators = response.coordinators if version >= 4 else [response]
    return [
        (ErrorCode.for_code(each.error_code).name, each.node_id, each.host) for each in coordinators
    ]


async def complete(pending):
    return await in_the_end(pending)


@pytest.mark.parametrize("version", versions_of(FindCoordinatorRequest))
async def test_leader_of_the_group_partition_is_returned(tmp_path, version):
    scene = Coordinating(tmp_path)
    assert await find(scene, version, "g") == [("NONE", 1, "here")]


@pytest.mark.parametrize("version", versions_of(FindCoordinatorRequest)[1:])
async def test_leader_of_the_transaction_partition_is_returned(tmp_path, version):
    scene = Coordinating(tmp_path)
    assert await find(scene, version, "t", key_type=1) == [("NONE", 1, "here")]


async def test_several_keys_are_looked_up_at_once(tmp_path):
    scene = Coordinating(tmp_path)
    assert len(await find(scene, 4, "a", "b", "c")) == 3


@pytest.mark.parametrize("version", [0, 3, 4, 6])
async def test_unreachable_leader_is_returned_as_not_available(tmp_path, version):
    scene = Coordinating(tmp_path)
    coordinators = await find(scene, version, "g", listener="OUTSIDE")
    assert coordinators == [("COORDINATOR_NOT_AVAILABLE", -1, "")]


async def test_internal_topic_is_created_and_waited_for(tmp_path):
    scene = Coordinating(tmp_path, partitions=0)
    assert await find(scene, 4, "g") == [("NONE", 1, "here")]
    assert scene.created == ["__consumer_offsets"]


@pytest.mark.parametrize(
    ("key_type", "error", "version"),
    [
        *((2, "INVALID_REQUEST", version) for version in (1, 4)),
        (2, "COORDINATOR_NOT_AVAILABLE", 6),
        (3, "INVALID_REQUEST", 6),
    ],
)
async def test_unsupported_key_types_are_rejected(tmp_path, key_type, error, version):
    scene = Coordinating(tmp_path)
    assert await find(scene, version, "g", key_type=key_type) == [(error, -1, "")]


@pytest.mark.parametrize("version", versions_of(FindCoordinatorRequest))
def test_request_error_is_returned_for_every_key(version):
    keys = ["a", "b"] if version >= 4 else []
    body = FindCoordinatorRequest(key="" if keys else "a", coordinator_keys=keys)
    request = called(body, version=version)
    response = as_sent(
        find_coordinator.error_response(request, KafkaStorageError()), version=version
    )
    coordinators = response.coordinators if version >= 4 else [response]
    assert {(each.error_code, each.node_id) for each in coordinators} == {(56, -1)}


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_success_has_the_error_message_none_in_versions_1_to_3(tmp_path, version):
    scene = Coordinating(tmp_path)
    request = called(FindCoordinatorRequest(key="g"), version=version, listener="INSIDE")
    response = await complete(
        find_coordinator.handle({find_coordinator.GROUP: scene.lookup}, request)
    )
    assert response.error_message == "NONE"
