"""The exceptions of the protocol: broken bytes, unwritable values, and refusals with a code.

Three roots, by what becomes of them:

    DecodeError   the peer's bytes are not what the protocol says: the connection is closed
    EncodeError   we were asked to write what the protocol cannot carry: a bug of ours
    KafkaError    a refusal with a place in the protocol: its code goes into the response

A class stands here for every code that a broker raises itself; what it means is its code's message.
A rare code needs none: ``KafkaError(error=ErrorCode.SNAPSHOT_NOT_FOUND)``.

Invariant: every instance survives pickling, since refusals come back from the worker process.
"""

from typing import Any

from odradek.protocol.error_codes import ErrorCode


class DecodeError(Exception):
    """A peer's bytes are not what the protocol says: the one exception for malformed input."""


class EncodeError(Exception):
    """A value that its field cannot carry; the text names the field."""


class KafkaError(Exception):
    """A failure with a place in the protocol."""

    error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init_subclass__(cls, *, error: ErrorCode | None = None) -> None:
        """A subclass that names no code keeps its parent's; the first to name one stands for it."""
        super().__init_subclass__()
        if error is not None:
            cls.error = error
            _STANDS_FOR.setdefault(error, cls)

    def __init__(self, message: str | None = None, *, error: ErrorCode | None = None) -> None:
        if error is not None:
            self.error = error
        self.message = self.error.message if message is None else message
        super().__init__(self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt by calling their class, but a subclass may take other arguments.
        return _rebuilt, (type(self), self.args), self.__dict__


_STANDS_FOR: dict[ErrorCode, type[KafkaError]] = {}


def _rebuilt(cls: type[KafkaError], arguments: tuple[Any, ...]) -> KafkaError:
    return cls.__new__(cls, *arguments)


def code_of(failure: BaseException | None) -> int:
    """The number that goes on the wire for this outcome."""
    if failure is None:
        return ErrorCode.NONE.code
    if isinstance(failure, KafkaError):
        return failure.error.code
    return ErrorCode.UNKNOWN_SERVER_ERROR.code


def error_for(code: int, message: str | None = None) -> KafkaError | None:
    """What another broker meant by this code; None for success."""
    error = ErrorCode.of(code)
    if error is ErrorCode.NONE:
        return None
    known = _STANDS_FOR.get(error)
    return known(message) if known else KafkaError(message, error=error)


# Reading and writing a log


class OffsetOutOfRange(KafkaError, error=ErrorCode.OFFSET_OUT_OF_RANGE): ...


class CorruptMessage(KafkaError, DecodeError, error=ErrorCode.CORRUPT_MESSAGE):
    """A damaged record batch: broken bytes that a client is told of."""


class UnknownTopicOrPartition(KafkaError, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): ...


class LeaderNotAvailable(KafkaError, error=ErrorCode.LEADER_NOT_AVAILABLE): ...


class NotLeader(KafkaError, error=ErrorCode.NOT_LEADER_OR_FOLLOWER): ...


class RequestTimedOut(KafkaError, error=ErrorCode.REQUEST_TIMED_OUT): ...


class ReplicaNotAvailable(KafkaError, error=ErrorCode.REPLICA_NOT_AVAILABLE): ...


class MessageTooLarge(KafkaError, error=ErrorCode.MESSAGE_TOO_LARGE): ...


class RecordListTooLarge(KafkaError, error=ErrorCode.RECORD_LIST_TOO_LARGE): ...


class NotEnoughReplicas(KafkaError, error=ErrorCode.NOT_ENOUGH_REPLICAS): ...


class NotEnoughReplicasAfterAppend(
    KafkaError, error=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
): ...


class InvalidRequiredAcks(KafkaError, error=ErrorCode.INVALID_REQUIRED_ACKS): ...


class InvalidTimestamp(KafkaError, error=ErrorCode.INVALID_TIMESTAMP): ...


class UnsupportedForMessageFormat(KafkaError, error=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT): ...


class KafkaStorageError(KafkaError, error=ErrorCode.KAFKA_STORAGE_ERROR): ...


class LogDirNotFound(KafkaError, error=ErrorCode.LOG_DIR_NOT_FOUND): ...


class FetchSessionIdNotFound(KafkaError, error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND): ...


class InvalidFetchSessionEpoch(KafkaError, error=ErrorCode.INVALID_FETCH_SESSION_EPOCH): ...


class FencedLeaderEpoch(KafkaError, error=ErrorCode.FENCED_LEADER_EPOCH): ...


class UnknownLeaderEpoch(KafkaError, error=ErrorCode.UNKNOWN_LEADER_EPOCH): ...


class UnsupportedCompressionType(KafkaError, error=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE): ...


class OffsetNotAvailable(KafkaError, error=ErrorCode.OFFSET_NOT_AVAILABLE): ...


class InvalidRecord(KafkaError, error=ErrorCode.INVALID_RECORD): ...


class UnknownTopicId(KafkaError, error=ErrorCode.UNKNOWN_TOPIC_ID): ...


class InconsistentTopicId(KafkaError, error=ErrorCode.INCONSISTENT_TOPIC_ID): ...


class FetchSessionTopicIdError(KafkaError, error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR): ...


# Idempotence and transactions


class OutOfOrderSequenceNumber(KafkaError, error=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER): ...


class DuplicateSequenceNumber(KafkaError, error=ErrorCode.DUPLICATE_SEQUENCE_NUMBER): ...


class InvalidProducerEpoch(KafkaError, error=ErrorCode.INVALID_PRODUCER_EPOCH): ...


class InvalidTxnState(KafkaError, error=ErrorCode.INVALID_TXN_STATE): ...


class InvalidProducerIdMapping(KafkaError, error=ErrorCode.INVALID_PRODUCER_ID_MAPPING): ...


class InvalidTransactionTimeout(KafkaError, error=ErrorCode.INVALID_TRANSACTION_TIMEOUT): ...


class ConcurrentTransactions(KafkaError, error=ErrorCode.CONCURRENT_TRANSACTIONS): ...


class TransactionCoordinatorFenced(KafkaError, error=ErrorCode.TRANSACTION_COORDINATOR_FENCED): ...


class UnknownProducerId(KafkaError, error=ErrorCode.UNKNOWN_PRODUCER_ID): ...


class ProducerFenced(KafkaError, error=ErrorCode.PRODUCER_FENCED): ...


class TransactionalIdNotFound(KafkaError, error=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND): ...


class TransactionAbortable(KafkaError, error=ErrorCode.TRANSACTION_ABORTABLE): ...


# Groups and their offsets


class OffsetMetadataTooLarge(KafkaError, error=ErrorCode.OFFSET_METADATA_TOO_LARGE): ...


class CoordinatorLoadInProgress(KafkaError, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS): ...


class CoordinatorNotAvailable(KafkaError, error=ErrorCode.COORDINATOR_NOT_AVAILABLE): ...


class NotCoordinator(KafkaError, error=ErrorCode.NOT_COORDINATOR): ...


class IllegalGeneration(KafkaError, error=ErrorCode.ILLEGAL_GENERATION): ...


class InconsistentGroupProtocol(KafkaError, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL): ...


class InvalidGroupId(KafkaError, error=ErrorCode.INVALID_GROUP_ID): ...


class UnknownMemberId(KafkaError, error=ErrorCode.UNKNOWN_MEMBER_ID): ...


class InvalidSessionTimeout(KafkaError, error=ErrorCode.INVALID_SESSION_TIMEOUT): ...


class RebalanceInProgress(KafkaError, error=ErrorCode.REBALANCE_IN_PROGRESS): ...


class InvalidCommitOffsetSize(KafkaError, error=ErrorCode.INVALID_COMMIT_OFFSET_SIZE): ...


class NonEmptyGroup(KafkaError, error=ErrorCode.NON_EMPTY_GROUP): ...


class GroupIdNotFound(KafkaError, error=ErrorCode.GROUP_ID_NOT_FOUND): ...


class MemberIdRequired(KafkaError, error=ErrorCode.MEMBER_ID_REQUIRED): ...


class GroupMaxSizeReached(KafkaError, error=ErrorCode.GROUP_MAX_SIZE_REACHED): ...


class FencedInstanceId(KafkaError, error=ErrorCode.FENCED_INSTANCE_ID): ...


class GroupSubscribedToTopic(KafkaError, error=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC): ...


class UnstableOffsetCommit(KafkaError, error=ErrorCode.UNSTABLE_OFFSET_COMMIT): ...


class FencedMemberEpoch(KafkaError, error=ErrorCode.FENCED_MEMBER_EPOCH): ...


class UnreleasedInstanceId(KafkaError, error=ErrorCode.UNRELEASED_INSTANCE_ID): ...


class UnsupportedAssignor(KafkaError, error=ErrorCode.UNSUPPORTED_ASSIGNOR): ...


class StaleMemberEpoch(KafkaError, error=ErrorCode.STALE_MEMBER_EPOCH): ...


class InvalidRegularExpression(KafkaError, error=ErrorCode.INVALID_REGULAR_EXPRESSION): ...


# The controller and administration


class BrokerNotAvailable(KafkaError, error=ErrorCode.BROKER_NOT_AVAILABLE): ...


class StaleControllerEpoch(KafkaError, error=ErrorCode.STALE_CONTROLLER_EPOCH): ...


class InvalidTopic(KafkaError, error=ErrorCode.INVALID_TOPIC_EXCEPTION): ...


class UnsupportedVersion(KafkaError, error=ErrorCode.UNSUPPORTED_VERSION): ...


class TopicAlreadyExists(KafkaError, error=ErrorCode.TOPIC_ALREADY_EXISTS): ...


class InvalidPartitions(KafkaError, error=ErrorCode.INVALID_PARTITIONS): ...


class InvalidReplicationFactor(KafkaError, error=ErrorCode.INVALID_REPLICATION_FACTOR): ...


class InvalidReplicaAssignment(KafkaError, error=ErrorCode.INVALID_REPLICA_ASSIGNMENT): ...


class InvalidConfig(KafkaError, error=ErrorCode.INVALID_CONFIG): ...


class NotController(KafkaError, error=ErrorCode.NOT_CONTROLLER): ...


class InvalidRequest(KafkaError, error=ErrorCode.INVALID_REQUEST): ...


class PolicyViolation(KafkaError, error=ErrorCode.POLICY_VIOLATION): ...


class ReassignmentInProgress(KafkaError, error=ErrorCode.REASSIGNMENT_IN_PROGRESS): ...


class ListenerNotFound(KafkaError, error=ErrorCode.LISTENER_NOT_FOUND): ...


class TopicDeletionDisabled(KafkaError, error=ErrorCode.TOPIC_DELETION_DISABLED): ...


class StaleBrokerEpoch(KafkaError, error=ErrorCode.STALE_BROKER_EPOCH): ...


class PreferredLeaderNotAvailable(KafkaError, error=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE): ...


class EligibleLeadersNotAvailable(KafkaError, error=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE): ...


class ElectionNotNeeded(KafkaError, error=ErrorCode.ELECTION_NOT_NEEDED): ...


class NoReassignmentInProgress(KafkaError, error=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS): ...


class ThrottlingQuotaExceeded(KafkaError, error=ErrorCode.THROTTLING_QUOTA_EXCEEDED): ...


class FeatureUpdateFailed(KafkaError, error=ErrorCode.FEATURE_UPDATE_FAILED): ...


class IneligibleReplica(KafkaError, error=ErrorCode.INELIGIBLE_REPLICA): ...


# Who may do what


class TopicAuthorizationFailed(KafkaError, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED): ...


class GroupAuthorizationFailed(KafkaError, error=ErrorCode.GROUP_AUTHORIZATION_FAILED): ...


class ClusterAuthorizationFailed(KafkaError, error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED): ...


class UnsupportedSaslMechanism(KafkaError, error=ErrorCode.UNSUPPORTED_SASL_MECHANISM): ...


class IllegalSaslState(KafkaError, error=ErrorCode.ILLEGAL_SASL_STATE): ...


class TransactionalIdAuthorizationFailed(
    KafkaError, error=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
): ...


class SecurityDisabled(KafkaError, error=ErrorCode.SECURITY_DISABLED): ...


class SaslAuthenticationFailed(KafkaError, error=ErrorCode.SASL_AUTHENTICATION_FAILED): ...


class InvalidPrincipalType(KafkaError, error=ErrorCode.INVALID_PRINCIPAL_TYPE): ...


class ResourceNotFound(KafkaError, error=ErrorCode.RESOURCE_NOT_FOUND): ...


class DuplicateResource(KafkaError, error=ErrorCode.DUPLICATE_RESOURCE): ...


class UnacceptableCredential(KafkaError, error=ErrorCode.UNACCEPTABLE_CREDENTIAL): ...
