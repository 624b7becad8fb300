"""Every state and every request: what becomes of the transaction, or what its client is told."""

import pytest

from odradek.broker.transactions.decisions import (
    Ending,
    check_may_init,
    check_verified,
    decide_add,
    decide_complete,
    decide_end,
    decide_fence,
    decide_init,
    is_expired,
    is_timed_out,
)
from odradek.broker.transactions.transaction_state import LAST_EPOCH, Producer, State
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from tests.support.transactions import (
    EPOCH,
    NOW_MS,
    OURS,
    PARTITIONS,
    PRODUCER_ID,
    TIMEOUT_MS,
    transaction,
)

NEW_ID = 1000
STRANGER = Producer(PRODUCER_ID + 1, EPOCH)
ZOMBIE = Producer(PRODUCER_ID, EPOCH - 1)
AHEAD = Producer(PRODUCER_ID, EPOCH + 1)
MORE = frozenset({TopicPartition("other", 0)})

CONCURRENT, FENCED, INVALID, UNMAPPED, BUG = (
    "CONCURRENT_TRANSACTIONS",
    "PRODUCER_FENCED",
    "INVALID_TXN_STATE",
    "INVALID_PRODUCER_ID_MAPPING",
    "UNKNOWN_SERVER_ERROR",
)
NEW, OPEN, PC, PA, CC, CA, DEAD, FENCE = State


def told(decide, *args, **options):
    """The state that it comes to, "nothing" if there is nothing to write, or the error."""
    try:
        record = decide(*args, **options)
    except KafkaError as failure:
        return failure.error.name
    return "nothing" if record is None else record.state.shown


# InitProducerId


def init(txn, expected=None, *, new_id=NEW_ID):
    return decide_init(txn, expected, timeout_ms=5000, now_ms=NOW_MS, new_id=new_id)


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        *((each, "Empty") for each in (NEW, CC, CA)),
        *((each, CONCURRENT) for each in (PC, PA)),
        *((each, BUG) for each in (DEAD, FENCE)),
    ],
)
@pytest.mark.parametrize("expected", [None, OURS])
def test_init_in_every_state_without_an_open_transaction(state, expected, outcome):
    assert told(init, transaction(state), expected) == outcome


@pytest.mark.parametrize("state", State)
def test_nothing_begins_while_a_step_is_pending(state):
    with pytest.raises(KafkaError) as refused:
        check_may_init(transaction(state), STRANGER, is_pending=True)
    assert refused.value.error.name == CONCURRENT


@pytest.mark.parametrize("state", [NEW, OPEN, PC, PA, CC, CA])
def test_init_of_a_stranger_is_fenced_in_every_state(state):
    with pytest.raises(KafkaError) as refused:
        check_may_init(transaction(state), STRANGER)
    assert refused.value.error.name == FENCED


def test_the_first_producer_of_an_id_gets_epoch_0_whoever_it_says_it_was():
    new = transaction(producer_epoch=-1)
    assert init(new).producer == init(new, STRANGER).producer == (PRODUCER_ID, 0)


def test_whoever_comes_without_a_name_gets_the_next_epoch_and_none_to_ask_by():
    record = init(transaction(CC, last_epoch=EPOCH - 1))
    assert (record.producer, record.last_epoch) == (AHEAD, -1)
    assert (record.timeout_ms, record.updated_ms, record.started_ms) == (5000, NOW_MS, -1)
    assert record.partitions == frozenset()


def test_whoever_is_the_present_producer_gets_the_next_epoch_and_may_ask_again():
    record = init(transaction(CC), OURS)
    assert (record.producer, record.last_epoch) == (AHEAD, EPOCH)
    again = init(record, OURS)
    assert (again.producer, again.last_epoch) == (AHEAD, EPOCH)


@pytest.mark.parametrize("expected", [ZOMBIE, AHEAD])
def test_any_other_epoch_is_fenced(expected):
    assert told(init, transaction(CC), expected) == FENCED


def test_who_asks_again_is_fenced_once_another_has_come():
    record = init(init(transaction(CC), OURS))
    assert told(init, record, OURS) == FENCED


def exhausted(state=CC, **fields):
    return transaction(state, producer_epoch=LAST_EPOCH - 1, **fields)


def test_when_the_epochs_are_used_up_there_is_a_new_id():
    last = Producer(PRODUCER_ID, LAST_EPOCH - 1)
    for expected, last_epoch in ((None, -1), (last, LAST_EPOCH - 1)):
        record = init(exhausted(), expected)
        assert (record.producer, record.previous_producer_id) == ((NEW_ID, 0), PRODUCER_ID)
        assert record.last_epoch == last_epoch


def test_who_asks_again_by_the_id_before_gets_the_new_one():
    last = Producer(PRODUCER_ID, LAST_EPOCH - 1)
    assert init(init(exhausted(), last), last).producer == (NEW_ID, 0)
    assert told(init, init(exhausted()), last) == FENCED
    assert told(init, init(exhausted(), last), Producer(PRODUCER_ID, 5)) == FENCED


def test_who_is_not_the_last_of_the_epochs_gets_no_new_id():
    assert told(init, exhausted(), OURS) == FENCED
    aborted = exhausted(CA, last_epoch=LAST_EPOCH - 2)
    assert init(aborted, Producer(PRODUCER_ID, LAST_EPOCH - 2)).producer == aborted.producer
    fenced = transaction(CA, producer_epoch=LAST_EPOCH, last_epoch=LAST_EPOCH - 1)
    assert told(init, fenced, Producer(PRODUCER_ID, LAST_EPOCH - 1)) == FENCED
    assert init(fenced).producer == (NEW_ID, 0)


def test_a_new_id_that_is_not_there_yet_is_asked_for_again():
    assert told(init, exhausted(), new_id=None) == CONCURRENT


# Fencing an open transaction


@pytest.mark.parametrize(("server", "last_epoch"), [(0, -1), (1, -1), (2, EPOCH)])
def test_fencing_aborts_in_the_next_epoch(server, last_epoch):
    record = decide_fence(transaction(OPEN), server_version=server, now_ms=NOW_MS)
    assert (record.state, record.producer) == (State.PREPARE_ABORT, AHEAD)
    assert (record.last_epoch, record.client_version) == (last_epoch, server)
    assert (record.partitions, record.started_ms) == (PARTITIONS, NOW_MS - 500)


def test_fencing_uses_the_epoch_that_no_producer_gets():
    record = decide_fence(exhausted(OPEN), server_version=2, now_ms=NOW_MS)
    assert (record.producer_epoch, record.next_producer_id) == (LAST_EPOCH, -1)
    assert decide_complete(record, now_ms=NOW_MS).producer == (PRODUCER_ID, LAST_EPOCH)
    again = decide_fence(transaction(OPEN, producer_epoch=LAST_EPOCH), server_version=2, now_ms=1)
    assert again.producer_epoch == LAST_EPOCH


@pytest.mark.parametrize("state", [each for each in State if each is not OPEN])
def test_only_what_is_open_is_fenced(state):
    with pytest.raises(AssertionError):
        decide_fence(transaction(state), server_version=2, now_ms=NOW_MS)


# AddPartitionsToTxn, AddOffsetsToTxn


def add(txn, producer=OURS, added=MORE, *, client=0, is_pending=False):
    return decide_add(
        txn, producer, added, client_version=client, now_ms=NOW_MS, is_pending=is_pending
    )


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        *((each, "Ongoing") for each in (NEW, OPEN, CC, CA)),
        *((each, CONCURRENT) for each in (PC, PA)),
        *((each, BUG) for each in (DEAD, FENCE)),
    ],
)
@pytest.mark.parametrize("client", [0, 2])
def test_add_in_every_state(state, outcome, client):
    assert told(add, transaction(state), client=client) == outcome
    is_told_first = client == 2 and outcome == CONCURRENT
    for producer, refusal in ((STRANGER, UNMAPPED), (ZOMBIE, FENCED), (AHEAD, FENCED)):
        expected = CONCURRENT if is_told_first else refusal
        assert told(add, transaction(state), producer, client=client) == expected


def test_an_id_that_nobody_has_is_mapped_to_no_producer():
    assert told(add, None) == told(end, None) == told(end, None, client=2) == UNMAPPED


@pytest.mark.parametrize(
    ("client", "producer", "outcome"),
    [
        *((0, *each) for each in ((OURS, CONCURRENT), (STRANGER, UNMAPPED), (ZOMBIE, FENCED))),
        *((2, each, CONCURRENT) for each in (OURS, STRANGER, ZOMBIE)),
    ],
)
def test_while_a_step_is_pending_who_speaks_version_2_is_told_so_first(client, producer, outcome):
    assert told(add, transaction(OPEN), producer, client=client, is_pending=True) == outcome
    assert told(end, transaction(OPEN), producer, client=client, is_pending=True) == outcome


def test_a_transaction_begins_with_its_first_partition():
    record = add(transaction(CC), client=2)
    assert (record.partitions, record.started_ms, record.updated_ms) == (MORE, NOW_MS, NOW_MS)
    assert record.client_version == 2
    later = add(transaction(OPEN))
    assert (later.partitions, later.started_ms) == (PARTITIONS | MORE, NOW_MS - 500)


def test_what_is_there_already_is_not_written_again():
    assert told(add, transaction(OPEN), added=PARTITIONS) == "nothing"
    assert told(add, transaction(CC), added=frozenset()) == "Ongoing"


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        *((each, "there") for each in (NEW, OPEN, CC, CA, DEAD, FENCE)),
        (PC, CONCURRENT),
        (PA, CONCURRENT),
    ],
)
def test_verification_in_every_state(state, outcome):
    assert verified(transaction(state)) == outcome
    assert verified(transaction(state), STRANGER) == UNMAPPED
    assert verified(transaction(state), ZOMBIE) == FENCED


def verified(txn, producer=OURS):
    try:
        check_verified(txn, producer)
    except KafkaError as failure:
        return failure.error.name
    return "there"


# EndTxn


def end(txn, producer=OURS, *, is_commit=True, client=0, new_id=None, is_pending=False):
    ending = Ending(producer, is_commit, client)
    return decide_end(txn, ending, now_ms=NOW_MS, new_id=new_id, is_pending=is_pending)


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (NEW, INVALID, INVALID),
        (OPEN, "PrepareCommit", "PrepareAbort"),
        (PC, CONCURRENT, CONCURRENT),
        (PA, CONCURRENT, CONCURRENT),
        (CC, "nothing", INVALID),
        (CA, INVALID, "nothing"),
        (DEAD, BUG, BUG),
        (FENCE, BUG, BUG),
    ],
)
def test_end_in_every_state(state, commit, abort):
    for is_commit, outcome in ((True, commit), (False, abort)):
        assert told(end, transaction(state), is_commit=is_commit) == outcome
        assert told(end, transaction(state), STRANGER, is_commit=is_commit) == UNMAPPED
        assert told(end, transaction(state), ZOMBIE, is_commit=is_commit) == FENCED
        assert told(end, transaction(state), AHEAD, is_commit=is_commit) == FENCED


def test_before_version_2_the_epoch_stays():
    record = end(transaction(OPEN, last_epoch=1))
    assert (record.producer, record.last_epoch, record.client_version) == (OURS, 1, 0)
    assert (record.partitions, record.started_ms) == (PARTITIONS, NOW_MS - 500)
    assert end(exhausted(OPEN), exhausted().producer).next_producer_id == -1


#: Of version 2: by state, what a commit and an abort come to, in the present epoch and the last.
OF_VERSION_2 = [
    (NEW, (INVALID, "PrepareAbort"), (FENCED, FENCED)),
    (OPEN, ("PrepareCommit", "PrepareAbort"), (FENCED, FENCED)),
    (PC, (CONCURRENT, CONCURRENT), (CONCURRENT, CONCURRENT)),
    (PA, (CONCURRENT, CONCURRENT), (CONCURRENT, CONCURRENT)),
    (CC, (INVALID, "PrepareAbort"), ("nothing", INVALID)),
    (CA, (INVALID, "PrepareAbort"), (INVALID, "nothing")),
    (DEAD, (BUG, BUG), (FENCED, FENCED)),
    (FENCE, (BUG, BUG), (FENCED, FENCED)),
]


@pytest.mark.parametrize(("state", "present", "again"), OF_VERSION_2)
def test_end_of_version_2_in_every_state(state, present, again):
    for producer, outcomes in ((OURS, present), (ZOMBIE, again)):
        for is_commit, outcome in zip((True, False), outcomes, strict=True):
            txn = transaction(state, client_version=2)
            assert told(end, txn, producer, is_commit=is_commit, client=2) == outcome
    stranger = CONCURRENT if state in (PC, PA) else UNMAPPED
    assert told(end, transaction(state), STRANGER, client=2) == stranger
    ahead = CONCURRENT if state in (PC, PA) else FENCED
    assert told(end, transaction(state), AHEAD, client=2) == ahead


def test_from_version_2_on_every_end_begins_an_epoch():
    record = end(transaction(OPEN), client=2)
    assert (record.producer, record.last_epoch, record.client_version) == (AHEAD, EPOCH, 2)
    assert decide_complete(record, now_ms=NOW_MS).producer == AHEAD


@pytest.mark.parametrize(("state", "is_commit"), [(CC, True), (CA, False)])
def test_a_zombie_of_version_2_does_not_get_the_epoch_of_one_who_speaks_version_0(state, is_commit):
    ended = transaction(state, client_version=0)
    assert told(end, ended, ZOMBIE, is_commit=is_commit, client=2) == FENCED


def test_what_never_began_may_be_aborted_and_has_begun_then():
    record = end(transaction(NEW), is_commit=False, client=2)
    assert (record.producer, record.started_ms, record.partitions) == (AHEAD, NOW_MS, frozenset())


def test_when_the_epochs_are_used_up_the_end_leads_to_a_new_id():
    record = end(exhausted(OPEN), exhausted().producer, client=2, new_id=NEW_ID)
    assert (record.producer_epoch, record.next_producer_id) == (LAST_EPOCH, NEW_ID)
    assert record.successor == (NEW_ID, 0)
    complete = decide_complete(record, now_ms=NOW_MS)
    assert (complete.producer, complete.previous_producer_id) == ((NEW_ID, 0), PRODUCER_ID)
    assert complete.next_producer_id == -1
    assert told(end, complete, exhausted().producer, client=2) == "nothing"
    assert told(end, complete, Producer(PRODUCER_ID, 5), client=2) == UNMAPPED
    begun = add(complete, complete.producer, client=2)
    assert told(end, begun, exhausted().producer, client=2) == UNMAPPED


def test_who_asks_again_is_fenced_where_the_id_that_was_to_come_is_lost():
    lost = transaction(CC, producer_epoch=LAST_EPOCH, client_version=2)
    assert told(end, lost, Producer(PRODUCER_ID, LAST_EPOCH - 1), client=2) == FENCED
    assert init(lost).producer == (NEW_ID, 0)


def test_an_end_that_needs_an_id_is_asked_for_again_until_there_is_one():
    assert told(end, exhausted(OPEN), exhausted().producer, client=2) == CONCURRENT


# Completion


@pytest.mark.parametrize(("state", "after"), [(PC, CC), (PA, CA)])
def test_completion_leaves_no_partitions(state, after):
    record = decide_complete(transaction(state), now_ms=NOW_MS)
    assert (record.state, record.partitions, record.updated_ms) == (after, frozenset(), NOW_MS)
    assert (record.producer, record.started_ms) == (OURS, NOW_MS - 500)


# Time


@pytest.mark.parametrize("state", State)
def test_only_open_transactions_run_out_of_time(state):
    late = transaction(state)._replace(started_ms=NOW_MS - TIMEOUT_MS - 1)
    assert is_timed_out(late, now_ms=NOW_MS) is (state is OPEN)
    assert not is_timed_out(late, now_ms=NOW_MS - 1)


@pytest.mark.parametrize("state", State)
def test_only_ids_without_an_open_transaction_expire(state):
    unused = transaction(state, updated_ms=NOW_MS - 5000)
    assert is_expired(unused, expiration_ms=5000, now_ms=NOW_MS) is (state in (NEW, CC, CA))
    assert not is_expired(unused, expiration_ms=5001, now_ms=NOW_MS)
