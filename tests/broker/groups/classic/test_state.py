"""The error of each API in each state; each pair of the table is tried on a group."""

import pytest

from odradek.broker.groups.classic.state import (
    API_ERRORS,
    VALID_TRANSITIONS,
    ClassicGroupState,
    check_api_allowed,
)
from odradek.broker.groups.group import Committer
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError

PAIRS = [(state, api) for state, errors in API_ERRORS.items() for api in errors]


def test_tables_cover_all_states_and_apis():
    assert set(VALID_TRANSITIONS) == set(API_ERRORS) == set(ClassicGroupState)
    assert {frozenset(errors) for errors in API_ERRORS.values()} == {
        frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT})
    }


def test_every_state_is_reachable_from_empty():
    reached = {ClassicGroupState.EMPTY}
    for _ in ClassicGroupState:
        reached |= {target for state in reached for target in VALID_TRANSITIONS[state]}
    assert reached == set(ClassicGroupState)


@pytest.mark.parametrize(("state", "api"), PAIRS)
def test_check_follows_the_error_table(state, api):
    error = API_ERRORS[state][api]
    if error is ErrorCode.NONE:
        check_api_allowed(state, api)
    else:
        with pytest.raises(KafkaError) as caught:
            check_api_allowed(state, api)
        assert caught.value.error_code is error


def group_in_state(scene, state):
    """Bring a group to the state with ordinary requests and return a current or former member."""
    leader, follower = scene.stable(2)
    if state is ClassicGroupState.EMPTY:
        scene.leave(follower)
        scene.leave(leader)
    elif state is ClassicGroupState.DEAD:
        scene.group.on_unloaded()
    elif state is not ClassicGroupState.STABLE:
        scene.join(leader)
        if state is ClassicGroupState.COMPLETING_REBALANCE:
            scene.join(follower)
    assert scene.group.metadata.state is state
    return follower


def call_api(scene, api, member_id):
    if api is ApiKey.JOIN_GROUP:
        return scene.join(member_id).error
    if api is ApiKey.SYNC_GROUP:
        return scene.sync(member_id).error
    if api is ApiKey.HEARTBEAT:
        return scene.heartbeat(member_id)
    committer = Committer(member_id, None, scene.group.metadata.generation)
    try:
        scene.group.validate_offset_commit(committer, is_transactional=False)
    except KafkaError as error:
        return error.error_code.name
    return "NONE"


@pytest.mark.parametrize(("state", "api"), PAIRS)
def test_member_gets_the_error_of_the_table(scene, state, api):
    actual = call_api(scene, api, group_in_state(scene, state))
    expected = API_ERRORS[state][api].name
    if state is ClassicGroupState.EMPTY:
        expected = "UNKNOWN_MEMBER_ID"  # there are no members any more, so the table does not apply
    assert actual in ({expected, "waiting"} if expected == "NONE" else {expected})
