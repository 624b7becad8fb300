"""FindCoordinator: which broker coordinates what."""

import pytest

from odradek.broker.handlers import find_coordinator
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError
from tests.support.calls import as_sent, called, in_the_end, versions_of
from tests.support.group_coordinators import Coordinating


async def asked(scene, version, *keys, key_type=0, listener="INSIDE"):
    request = FindCoordinatorRequest(key=keys[0], key_type=key_type, coordinator_keys=list(keys))
    if version < 4:
        request.coordinator_keys = []
    else:
        request.key = ""
    call = called(request, version=version, listener=listener)
    lookups = {find_coordinator.GROUP: scene.lookup, find_coordinator.TRANSACTION: scene.lookup}
    response = as_sent(await answered(find_coordinator.handle(lookups, call)), version=version)
    lines = response.coordinators if version >= 4 else [response]
    return [(ErrorCode.of(each.error_code).name, each.node_id, each.host) for each in lines]


async def answered(answer):
    return await in_the_end(answer)


@pytest.mark.parametrize("version", versions_of(FindCoordinatorRequest))
async def test_the_leader_of_the_groups_partition(tmp_path, version):
    scene = Coordinating(tmp_path)
    assert await asked(scene, version, "g") == [("NONE", 1, "here")]


@pytest.mark.parametrize("version", versions_of(FindCoordinatorRequest)[1:])
async def test_the_leader_of_the_transactions_partition(tmp_path, version):
    scene = Coordinating(tmp_path)
    assert await asked(scene, version, "t", key_type=1) == [("NONE", 1, "here")]


async def test_many_at_once_and_none(tmp_path):
    scene = Coordinating(tmp_path)
    assert len(await asked(scene, 4, "a", "b", "c")) == 3


@pytest.mark.parametrize("version", [0, 3, 4, 6])
async def test_nobody_where_the_leader_cannot_be_reached(tmp_path, version):
    scene = Coordinating(tmp_path)
    found = await asked(scene, version, "g", listener="OUTSIDE")
    assert found == [("COORDINATOR_NOT_AVAILABLE", -1, "")]


async def test_the_topic_is_created_and_waited_for(tmp_path):
    scene = Coordinating(tmp_path, partitions=0)
    assert await asked(scene, 4, "g") == [("NONE", 1, "here")]
    assert scene.created == ["__consumer_offsets"]


@pytest.mark.parametrize(
    ("key_type", "error", "version"),
    [
        *((2, "INVALID_REQUEST", version) for version in (1, 4)),
        (2, "COORDINATOR_NOT_AVAILABLE", 6),
        (3, "INVALID_REQUEST", 6),
    ],
)
async def test_other_kinds_of_coordinators_are_not_here(tmp_path, key_type, error, version):
    scene = Coordinating(tmp_path)
    assert await asked(scene, version, "g", key_type=key_type) == [(error, -1, "")]


@pytest.mark.parametrize("version", versions_of(FindCoordinatorRequest))
def test_all_of_it_can_be_refused(version):
    keys = ["a", "b"] if version >= 4 else []
    request = FindCoordinatorRequest(key="" if keys else "a", coordinator_keys=keys)
    call = called(request, version=version)
    response = as_sent(find_coordinator.refused(call, KafkaStorageError()), version=version)
    lines = response.coordinators if version >= 4 else [response]
    assert {(each.error_code, each.node_id) for each in lines} == {(56, -1)}


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_the_one_asked_for_is_found_without_an_error_by_that_name(tmp_path, version):
    scene = Coordinating(tmp_path)
    call = called(FindCoordinatorRequest(key="g"), version=version, listener="INSIDE")
    found = await answered(find_coordinator.handle({find_coordinator.GROUP: scene.lookup}, call))
    assert found.error_message == "NONE"
