"""What members are told, in every state: each pair of the table is tried on a group."""

import pytest

from odradek.broker.groups.classic.state import ANSWERS, MOVES, GroupState, check_answer
from odradek.broker.groups.group import Committer
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError

PAIRS = [(state, api) for state, answers in ANSWERS.items() for api in answers]


def test_both_tables_have_every_state_and_all_answers_are_there():
    assert set(MOVES) == set(ANSWERS) == set(GroupState)
    assert {frozenset(answers) for answers in ANSWERS.values()} == {
        frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT})
    }


def test_every_state_is_reached_from_the_first():
    reached = {GroupState.EMPTY}
    for _ in GroupState:
        reached |= {target for state in reached for target in MOVES[state]}
    assert reached == set(GroupState)


@pytest.mark.parametrize(("state", "api"), PAIRS)
def test_the_table_refuses_or_lets_go_on(state, api):
    error = ANSWERS[state][api]
    if error is ErrorCode.NONE:
        check_answer(state, api)
    else:
        with pytest.raises(KafkaError) as refused:
            check_answer(state, api)
        assert refused.value.error is error


def in_state(scene, state):
    """A group that has come there by itself, and one who is or was its member."""
    leader, follower = scene.stable(2)
    if state is GroupState.EMPTY:
        scene.leave(follower)
        scene.leave(leader)
    elif state is GroupState.DEAD:
        scene.group.end()
    elif state is not GroupState.STABLE:
        scene.join(leader)
        if state is GroupState.COMPLETING_REBALANCE:
            scene.join(follower)
    assert scene.group.roster.state is state
    return follower


def asked(scene, api, member_id):
    if api is ApiKey.JOIN_GROUP:
        return scene.join(member_id).error
    if api is ApiKey.SYNC_GROUP:
        return scene.sync(member_id).error
    if api is ApiKey.HEARTBEAT:
        return scene.heartbeat(member_id)
    committer = Committer(member_id, None, scene.group.roster.generation)
    try:
        scene.group.check_commit(committer, is_transactional=False)
    except KafkaError as failure:
        return failure.error.name
    return "NONE"


@pytest.mark.parametrize(("state", "api"), PAIRS)
def test_a_member_is_told_what_the_table_says(scene, state, api):
    told = asked(scene, api, in_state(scene, state))
    expected = ANSWERS[state][api].name
    if state is GroupState.EMPTY:
        expected = "UNKNOWN_MEMBER_ID"  # nobody is a member any more, whatever the table says
    assert told in ({expected, "waiting"} if expected == "NONE" else {expected})
