"""Every state and every request: the resulting transition, or the error for the client."""

import pytest

from odradek.broker.transactions.decisions import (
    EndTransactionRequest,
    check_can_init,
    check_can_verify,
    decide_add_partitions,
    decide_complete,
    decide_end,
    decide_fence,
    decide_init,
    is_expired,
    is_timed_out,
)
from odradek.broker.transactions.transaction_state import (
    MAX_PRODUCER_EPOCH,
    ProducerIdAndEpoch,
    TransactionState,
)
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
STRANGER = ProducerIdAndEpoch(PRODUCER_ID + 1, EPOCH)
ZOMBIE = ProducerIdAndEpoch(PRODUCER_ID, EPOCH - 1)
AHEAD = ProducerIdAndEpoch(PRODUCER_ID, EPOCH + 1)
MORE = frozenset({TopicPartition("other", 0)})

CONCURRENT, FENCED, INVALID, UNMAPPED, BUG = (
    "CONCURRENT_TRANSACTIONS",
    "PRODUCER_FENCED",
    "INVALID_TXN_STATE",
    "INVALID_PRODUCER_ID_MAPPING",
    "UNKNOWN_SERVER_ERROR",
)
NEW, OPEN, PC, PA, CC, CA, DEAD, FENCE = TransactionState


def outcome_of(decide, *args, **options):
    """Return the resulting state, "nothing" if there is nothing to write, or the error."""
    try:
        record = decide(*args, **options)
    except KafkaError as error:
        return error.error_code.name
    return "nothing" if record is None else record.state.display_name


# InitProducerId


def init(txn, expected=None, *, new_id=NEW_ID):
    return decide_init(txn, expected, timeout_ms=5000, now_ms=NOW_MS, new_producer_id=new_id)


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
    assert outcome_of(init, transaction(state), expected) == outcome


@pytest.mark.parametrize("state", TransactionState)
def test_init_is_rejected_while_a_transition_is_pending(state):
    with pytest.raises(KafkaError) as caught:
        check_can_init(transaction(state), STRANGER, has_pending_transition=True)
    assert caught.value.error_code.name == CONCURRENT


@pytest.mark.parametrize("state", [NEW, OPEN, PC, PA, CC, CA])
def test_init_with_another_producer_id_is_fenced_in_every_state(state):
    with pytest.raises(KafkaError) as caught:
        check_can_init(transaction(state), STRANGER)
    assert caught.value.error_code.name == FENCED


def test_first_producer_gets_epoch_0_whatever_it_claims():
    new = transaction(producer_epoch=-1)
    assert init(new).producer == init(new, STRANGER).producer == (PRODUCER_ID, 0)


def test_init_without_a_producer_gets_the_next_epoch_and_no_last_epoch():
    record = init(transaction(CC, last_producer_epoch=EPOCH - 1))
    assert (record.producer, record.last_producer_epoch) == (AHEAD, -1)
    assert (record.timeout_ms, record.updated_ms, record.started_ms) == (5000, NOW_MS, -1)
    assert record.partitions == frozenset()


def test_init_of_the_current_producer_gets_the_next_epoch_and_can_be_repeated():
    record = init(transaction(CC), OURS)
    assert (record.producer, record.last_producer_epoch) == (AHEAD, EPOCH)
    repeated = init(record, OURS)
    assert (repeated.producer, repeated.last_producer_epoch) == (AHEAD, EPOCH)


@pytest.mark.parametrize("expected", [ZOMBIE, AHEAD])
def test_init_with_another_epoch_is_fenced(expected):
    assert outcome_of(init, transaction(CC), expected) == FENCED


def test_repeated_init_is_fenced_after_another_producer():
    record = init(init(transaction(CC), OURS))
    assert outcome_of(init, record, OURS) == FENCED


def exhausted(state=CC, **fields):
    return transaction(state, producer_epoch=MAX_PRODUCER_EPOCH - 1, **fields)


def test_new_producer_id_is_used_when_the_epochs_are_exhausted():
    last = ProducerIdAndEpoch(PRODUCER_ID, MAX_PRODUCER_EPOCH - 1)
    for expected, last_epoch in ((None, -1), (last, MAX_PRODUCER_EPOCH - 1)):
        record = init(exhausted(), expected)
        assert (record.producer, record.previous_producer_id) == ((NEW_ID, 0), PRODUCER_ID)
        assert record.last_producer_epoch == last_epoch


def test_repeated_init_with_the_previous_producer_id_gets_the_new_one():
    last = ProducerIdAndEpoch(PRODUCER_ID, MAX_PRODUCER_EPOCH - 1)
    assert init(init(exhausted(), last), last).producer == (NEW_ID, 0)
    assert outcome_of(init, init(exhausted()), last) == FENCED
    assert outcome_of(init, init(exhausted(), last), ProducerIdAndEpoch(PRODUCER_ID, 5)) == FENCED


def test_only_the_producer_with_the_last_epoch_gets_a_new_producer_id():
    assert outcome_of(init, exhausted(), OURS) == FENCED
    aborted = exhausted(CA, last_producer_epoch=MAX_PRODUCER_EPOCH - 2)
    assert (
        init(aborted, ProducerIdAndEpoch(PRODUCER_ID, MAX_PRODUCER_EPOCH - 2)).producer
        == aborted.producer
    )
    fenced = transaction(
        CA, producer_epoch=MAX_PRODUCER_EPOCH, last_producer_epoch=MAX_PRODUCER_EPOCH - 1
    )
    assert (
        outcome_of(init, fenced, ProducerIdAndEpoch(PRODUCER_ID, MAX_PRODUCER_EPOCH - 1)) == FENCED
    )
    assert init(fenced).producer == (NEW_ID, 0)


def test_init_is_retried_while_there_is_no_new_producer_id():
    assert outcome_of(init, exhausted(), new_id=None) == CONCURRENT


# Fencing an open transaction


@pytest.mark.parametrize(("server", "last_epoch"), [(0, -1), (1, -1), (2, EPOCH)])
def test_fencing_aborts_in_the_next_epoch(server, last_epoch):
    record = decide_fence(transaction(OPEN), transaction_version=server, now_ms=NOW_MS)
    assert (record.state, record.producer) == (TransactionState.PREPARE_ABORT, AHEAD)
    assert (record.last_producer_epoch, record.client_transaction_version) == (last_epoch, server)
    assert (record.partitions, record.started_ms) == (PARTITIONS, NOW_MS - 500)


def test_fencing_uses_the_epoch_that_no_producer_gets():
    record = decide_fence(exhausted(OPEN), transaction_version=2, now_ms=NOW_MS)
    assert (record.producer_epoch, record.next_producer_id) == (MAX_PRODUCER_EPOCH, -1)
    assert decide_complete(record, now_ms=NOW_MS).producer == (PRODUCER_ID, MAX_PRODUCER_EPOCH)
    repeated = decide_fence(
        transaction(OPEN, producer_epoch=MAX_PRODUCER_EPOCH), transaction_version=2, now_ms=1
    )
    assert repeated.producer_epoch == MAX_PRODUCER_EPOCH


@pytest.mark.parametrize("state", [each for each in TransactionState if each is not OPEN])
def test_only_open_transactions_are_fenced(state):
    with pytest.raises(AssertionError):
        decide_fence(transaction(state), transaction_version=2, now_ms=NOW_MS)


# AddPartitionsToTxn, AddOffsetsToTxn


def add(txn, producer=OURS, added=MORE, *, client=0, is_pending=False):
    return decide_add_partitions(
        txn,
        producer,
        added,
        client_transaction_version=client,
        now_ms=NOW_MS,
        has_pending_transition=is_pending,
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
    assert outcome_of(add, transaction(state), client=client) == outcome
    is_concurrent_first = client == 2 and outcome == CONCURRENT
    for producer, error in ((STRANGER, UNMAPPED), (ZOMBIE, FENCED), (AHEAD, FENCED)):
        expected = CONCURRENT if is_concurrent_first else error
        assert outcome_of(add, transaction(state), producer, client=client) == expected


def test_unknown_transactional_id_has_no_producer_id_mapping():
    assert (
        outcome_of(add, None)
        == outcome_of(end, None)
        == outcome_of(end, None, client=2)
        == UNMAPPED
    )


@pytest.mark.parametrize(
    ("client", "producer", "outcome"),
    [
        *((0, *each) for each in ((OURS, CONCURRENT), (STRANGER, UNMAPPED), (ZOMBIE, FENCED))),
        *((2, each, CONCURRENT) for each in (OURS, STRANGER, ZOMBIE)),
    ],
)
def test_version_2_gets_concurrent_transactions_first_while_a_transition_is_pending(
    client, producer, outcome
):
    assert outcome_of(add, transaction(OPEN), producer, client=client, is_pending=True) == outcome
    assert outcome_of(end, transaction(OPEN), producer, client=client, is_pending=True) == outcome


def test_transaction_starts_with_its_first_partition():
    record = add(transaction(CC), client=2)
    assert (record.partitions, record.started_ms, record.updated_ms) == (MORE, NOW_MS, NOW_MS)
    assert record.client_transaction_version == 2
    later = add(transaction(OPEN))
    assert (later.partitions, later.started_ms) == (PARTITIONS | MORE, NOW_MS - 500)


def test_added_partition_is_not_written_again():
    assert outcome_of(add, transaction(OPEN), added=PARTITIONS) == "nothing"
    assert outcome_of(add, transaction(CC), added=frozenset()) == "Ongoing"


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        *((each, "there") for each in (NEW, OPEN, CC, CA, DEAD, FENCE)),
        (PC, CONCURRENT),
        (PA, CONCURRENT),
    ],
)
def test_verification_in_every_state(state, outcome):
    assert verification_outcome(transaction(state)) == outcome
    assert verification_outcome(transaction(state), STRANGER) == UNMAPPED
    assert verification_outcome(transaction(state), ZOMBIE) == FENCED


def verification_outcome(txn, producer=OURS):
    try:
        check_can_verify(txn, producer)
    except KafkaError as error:
        return error.error_code.name
    return "there"


# EndTxn


def end(txn, producer=OURS, *, is_commit=True, client=0, new_id=None, is_pending=False):
    request = EndTransactionRequest(producer, is_commit, client)
    return decide_end(
        txn, request, now_ms=NOW_MS, new_producer_id=new_id, has_pending_transition=is_pending
    )


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
        assert outcome_of(end, transaction(state), is_commit=is_commit) == outcome
        assert outcome_of(end, transaction(state), STRANGER, is_commit=is_commit) == UNMAPPED
        assert outcome_of(end, transaction(state), ZOMBIE, is_commit=is_commit) == FENCED
        assert outcome_of(end, transaction(state), AHEAD, is_commit=is_commit) == FENCED


def test_epoch_is_unchanged_before_version_2():
    record = end(transaction(OPEN, last_producer_epoch=1))
    assert (record.producer, record.last_producer_epoch, record.client_transaction_version) == (
        OURS,
        1,
        0,
    )
    assert (record.partitions, record.started_ms) == (PARTITIONS, NOW_MS - 500)
    assert end(exhausted(OPEN), exhausted().producer).next_producer_id == -1


#: Version 2: by state, the outcome of commit and abort in the current epoch and in the last.
VERSION_2_OUTCOMES = [
    (NEW, (INVALID, "PrepareAbort"), (FENCED, FENCED)),
    (OPEN, ("PrepareCommit", "PrepareAbort"), (FENCED, FENCED)),
    (PC, (CONCURRENT, CONCURRENT), (CONCURRENT, CONCURRENT)),
    (PA, (CONCURRENT, CONCURRENT), (CONCURRENT, CONCURRENT)),
    (CC, (INVALID, "PrepareAbort"), ("nothing", INVALID)),
    (CA, (INVALID, "PrepareAbort"), (INVALID, "nothing")),
    (DEAD, (BUG, BUG), (FENCED, FENCED)),
    (FENCE, (BUG, BUG), (FENCED, FENCED)),
]


@pytest.mark.parametrize(("state", "current", "repeated"), VERSION_2_OUTCOMES)
def test_end_of_version_2_in_every_state(state, current, repeated):
    for producer, outcomes in ((OURS, current), (ZOMBIE, repeated)):
        for is_commit, outcome in zip((True, False), outcomes, strict=True):
            txn = transaction(state, client_transaction_version=2)
            assert outcome_of(end, txn, producer, is_commit=is_commit, client=2) == outcome
    stranger = CONCURRENT if state in (PC, PA) else UNMAPPED
    assert outcome_of(end, transaction(state), STRANGER, client=2) == stranger
    ahead = CONCURRENT if state in (PC, PA) else FENCED
    assert outcome_of(end, transaction(state), AHEAD, client=2) == ahead


def test_version_2_end_bumps_the_epoch():
    record = end(transaction(OPEN), client=2)
    assert (record.producer, record.last_producer_epoch, record.client_transaction_version) == (
        AHEAD,
        EPOCH,
        2,
    )
    assert decide_complete(record, now_ms=NOW_MS).producer == AHEAD


@pytest.mark.parametrize(("state", "is_commit"), [(CC, True), (CA, False)])
def test_version_2_zombie_does_not_get_the_epoch_of_a_version_0_producer(state, is_commit):
    ended = transaction(state, client_transaction_version=0)
    assert outcome_of(end, ended, ZOMBIE, is_commit=is_commit, client=2) == FENCED


def test_version_2_abort_without_a_transaction_starts_one():
    record = end(transaction(NEW), is_commit=False, client=2)
    assert (record.producer, record.started_ms, record.partitions) == (AHEAD, NOW_MS, frozenset())


def test_end_with_exhausted_epochs_switches_to_a_new_producer_id():
    record = end(exhausted(OPEN), exhausted().producer, client=2, new_id=NEW_ID)
    assert (record.producer_epoch, record.next_producer_id) == (MAX_PRODUCER_EPOCH, NEW_ID)
    assert record.next_producer == (NEW_ID, 0)
    complete = decide_complete(record, now_ms=NOW_MS)
    assert (complete.producer, complete.previous_producer_id) == ((NEW_ID, 0), PRODUCER_ID)
    assert complete.next_producer_id == -1
    assert outcome_of(end, complete, exhausted().producer, client=2) == "nothing"
    assert outcome_of(end, complete, ProducerIdAndEpoch(PRODUCER_ID, 5), client=2) == UNMAPPED
    begun = add(complete, complete.producer, client=2)
    assert outcome_of(end, begun, exhausted().producer, client=2) == UNMAPPED


def test_repeated_end_is_fenced_if_the_next_producer_id_is_lost():
    lost = transaction(CC, producer_epoch=MAX_PRODUCER_EPOCH, client_transaction_version=2)
    assert (
        outcome_of(end, lost, ProducerIdAndEpoch(PRODUCER_ID, MAX_PRODUCER_EPOCH - 1), client=2)
        == FENCED
    )
    assert init(lost).producer == (NEW_ID, 0)


def test_end_is_retried_while_there_is_no_new_producer_id():
    assert outcome_of(end, exhausted(OPEN), exhausted().producer, client=2) == CONCURRENT


# Completion


@pytest.mark.parametrize(("state", "after"), [(PC, CC), (PA, CA)])
def test_completion_clears_the_partitions(state, after):
    record = decide_complete(transaction(state), now_ms=NOW_MS)
    assert (record.state, record.partitions, record.updated_ms) == (after, frozenset(), NOW_MS)
    assert (record.producer, record.started_ms) == (OURS, NOW_MS - 500)


# Timeouts


@pytest.mark.parametrize("state", TransactionState)
def test_only_open_transactions_time_out(state):
    late = transaction(state)._replace(started_ms=NOW_MS - TIMEOUT_MS - 1)
    assert is_timed_out(late, now_ms=NOW_MS) is (state is OPEN)
    assert not is_timed_out(late, now_ms=NOW_MS - 1)


@pytest.mark.parametrize("state", TransactionState)
def test_only_ids_without_an_open_transaction_expire(state):
    unused = transaction(state, updated_ms=NOW_MS - 5000)
    assert is_expired(unused, expiration_ms=5000, now_ms=NOW_MS) is (state in (NEW, CC, CA))
    assert not is_expired(unused, expiration_ms=5001, now_ms=NOW_MS)
