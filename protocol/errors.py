"""The exceptions of the protocol: malformed bytes, values that cannot be encoded, error codes.

There are three base classes, by the consequence:

    DecodeError   the peer's bytes violate the protocol: the connection is closed
    EncodeError   a value cannot be encoded: a bug in the caller
    KafkaError    an error that the protocol defines: its code goes into the response

There is a class for every code that the broker itself raises. Its default message is the message of
its code. Kafka: org.apache.kafka.common.errors.
A rare code needs no class: ``KafkaError(error_code=ErrorCode.SNAPSHOT_NOT_FOUND)``.

Invariant: every instance can be pickled, because errors are returned from the worker process.
"""

from typing import Any

from odradek.protocol.error_codes import ErrorCode


class DecodeError(Exception):
    """The peer's bytes violate the protocol: the only exception for malformed input."""


class EncodeError(Exception):
    """A field cannot hold the value; the message names the field."""


class KafkaError(Exception):
    """An error that the protocol defines a code for."""

    error_code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init_subclass__(cls, *, error_code: ErrorCode | None = None) -> None:
        """A subclass without a code inherits one; ``error_for`` uses the first class of a code."""
        super().__init_subclass__()
        if error_code is not None:
            cls.error_code = error_code
            _CLASS_BY_ERROR_CODE.setdefault(error_code, cls)

    def __init__(self, message: str | None = None, *, error_code: ErrorCode | None = None) -> None:
        if error_code is not None:
            self.error_code = error_code
        self.message = self.error_code.message if message is None else message
        super().__init__(self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickling would call the class with args, but a subclass may take other arguments.
        return _rebuild, (type(self), self.args), self.__dict__


_CLASS_BY_ERROR_CODE: dict[ErrorCode, type[KafkaError]] = {}


def _rebuild(cls: type[KafkaError], arguments: tuple[Any, ...]) -> KafkaError:
    return cls.__new__(cls, *arguments)


def code_of(error: BaseException | None) -> int:
    """Return the error code for a response; 0 for None."""
    if error is None:
        return ErrorCode.NONE.code
    if isinstance(error, KafkaError):
        return error.error_code.code
    return ErrorCode.UNKNOWN_SERVER_ERROR.code


def error_for(code: int, message: str | None = None) -> KafkaError | None:
    """Return the exception for a code received from another broker; None for success."""
    error = ErrorCode.for_code(code)
    if error is ErrorCode.NONE:
        return None
    error_class = _CLASS_BY_ERROR_CODE.get(error)
    return error_class(message) if error_class else KafkaError(message, error_code=error)


# Reading and writing a log


class OffsetOutOfRange(KafkaError, error_code=ErrorCode.OFFSET_OUT_OF_RANGE): ...


class CorruptMessage(KafkaError, DecodeError, error_code=ErrorCode.CORRUPT_MESSAGE):
    """A damaged record batch. Unlike other malformed bytes, it is reported to the client."""


class UnknownTopicOrPartition(KafkaError, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): ...


class LeaderNotAvailable(KafkaError, error_code=ErrorCode.LEADER_NOT_AVAILABLE): ...


class NotLeaderOrFollower(KafkaError, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER): ...


class RequestTimedOut(KafkaError, error_code=ErrorCode.REQUEST_TIMED_OUT): ...


class ReplicaNotAvailable(KafkaError, error_code=ErrorCode.REPLICA_NOT_AVAILABLE): ...


class MessageTooLarge(KafkaError, error_code=ErrorCode.MESSAGE_TOO_LARGE): ...


class RecordListTooLarge(KafkaError, error_code=ErrorCode.RECORD_LIST_TOO_LARGE): ...


class NotEnoughReplicas(KafkaError, error_code=ErrorCode.NOT_ENOUGH_REPLICAS): ...


class NotEnoughReplicasAfterAppend(
    KafkaError, error_code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
): ...


class InvalidRequiredAcks(KafkaError, error_code=ErrorCode.INVALID_REQUIRED_ACKS): ...


class InvalidTimestamp(KafkaError, error_code=ErrorCode.INVALID_TIMESTAMP): ...


class UnsupportedForMessageFormat(
    KafkaError, error_code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
): ...


class KafkaStorageError(KafkaError, error_code=ErrorCode.KAFKA_STORAGE_ERROR): ...


class LogDirNotFound(KafkaError, error_code=ErrorCode.LOG_DIR_NOT_FOUND): ...


class FetchSessionIdNotFound(KafkaError, error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND): ...


class InvalidFetchSessionEpoch(KafkaError, error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH): ...


class FencedLeaderEpoch(KafkaError, error_code=ErrorCode.FENCED_LEADER_EPOCH): ...


class UnknownLeaderEpoch(KafkaError, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH): ...


class UnsupportedCompressionType(KafkaError, error_code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE): ...


class OffsetNotAvailable(KafkaError, error_code=ErrorCode.OFFSET_NOT_AVAILABLE): ...


class InvalidRecord(KafkaError, error_code=ErrorCode.INVALID_RECORD): ...


class UnknownTopicId(KafkaError, error_code=ErrorCode.UNKNOWN_TOPIC_ID): ...


class InconsistentTopicId(KafkaError, error_code=ErrorCode.INCONSISTENT_TOPIC_ID): ...


class FetchSessionTopicIdError(KafkaError, error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR): ...


# Idempotence and transactions


class OutOfOrderSequenceNumber(KafkaError, error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER): ...


class DuplicateSequenceNumber(KafkaError, error_code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER): ...


class InvalidProducerEpoch(KafkaError, error_code=ErrorCode.INVALID_PRODUCER_EPOCH): ...


class InvalidTxnState(KafkaError, error_code=ErrorCode.INVALID_TXN_STATE): ...


class InvalidProducerIdMapping(KafkaError, error_code=ErrorCode.INVALID_PRODUCER_ID_MAPPING): ...


class InvalidTransactionTimeout(KafkaError, error_code=ErrorCode.INVALID_TRANSACTION_TIMEOUT): ...


class ConcurrentTransactions(KafkaError, error_code=ErrorCode.CONCURRENT_TRANSACTIONS): ...


class TransactionCoordinatorFenced(
    KafkaError, error_code=ErrorCode.TRANSACTION_COORDINATOR_FENCED
): ...


class UnknownProducerId(KafkaError, error_code=ErrorCode.UNKNOWN_PRODUCER_ID): ...


class ProducerFenced(KafkaError, error_code=ErrorCode.PRODUCER_FENCED): ...


class TransactionalIdNotFound(KafkaError, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND): ...


class TransactionAbortable(KafkaError, error_code=ErrorCode.TRANSACTION_ABORTABLE): ...


# Groups and their offsets


class OffsetMetadataTooLarge(KafkaError, error_code=ErrorCode.OFFSET_METADATA_TOO_LARGE): ...


class CoordinatorLoadInProgress(KafkaError, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS): ...


class CoordinatorNotAvailable(KafkaError, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE): ...


class NotCoordinator(KafkaError, error_code=ErrorCode.NOT_COORDINATOR): ...


class IllegalGeneration(KafkaError, error_code=ErrorCode.ILLEGAL_GENERATION): ...


class InconsistentGroupProtocol(KafkaError, error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL): ...


class InvalidGroupId(KafkaError, error_code=ErrorCode.INVALID_GROUP_ID): ...


class UnknownMemberId(KafkaError, error_code=ErrorCode.UNKNOWN_MEMBER_ID): ...


class InvalidSessionTimeout(KafkaError, error_code=ErrorCode.INVALID_SESSION_TIMEOUT): ...


class RebalanceInProgress(KafkaError, error_code=ErrorCode.REBALANCE_IN_PROGRESS): ...


class InvalidCommitOffsetSize(KafkaError, error_code=ErrorCode.INVALID_COMMIT_OFFSET_SIZE): ...


class NonEmptyGroup(KafkaError, error_code=ErrorCode.NON_EMPTY_GROUP): ...


class GroupIdNotFound(KafkaError, error_code=ErrorCode.GROUP_ID_NOT_FOUND): ...


class MemberIdRequired(KafkaError, error_code=ErrorCode.MEMBER_ID_REQUIRED): ...


class GroupMaxSizeReached(KafkaError, error_code=ErrorCode.GROUP_MAX_SIZE_REACHED): ...


class FencedInstanceId(KafkaError, error_code=ErrorCode.FENCED_INSTANCE_ID): ...


class GroupSubscribedToTopic(KafkaError, error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC): ...


class UnstableOffsetCommit(KafkaError, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT): ...


class FencedMemberEpoch(KafkaError, error_code=ErrorCode.FENCED_MEMBER_EPOCH): ...


class UnreleasedInstanceId(KafkaError, error_code=ErrorCode.UNRELEASED_INSTANCE_ID): ...


class UnsupportedAssignor(KafkaError, error_code=ErrorCode.UNSUPPORTED_ASSIGNOR): ...


class StaleMemberEpoch(KafkaError, error_code=ErrorCode.STALE_MEMBER_EPOCH): ...


class InvalidRegularExpression(KafkaError, error_code=ErrorCode.INVALID_REGULAR_EXPRESSION): ...


# The controller and administration


class BrokerNotAvailable(KafkaError, error_code=ErrorCode.BROKER_NOT_AVAILABLE): ...


class StaleControllerEpoch(KafkaError, error_code=ErrorCode.STALE_CONTROLLER_EPOCH): ...


class InvalidTopic(KafkaError, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION): ...


class UnsupportedVersion(KafkaError, error_code=ErrorCode.UNSUPPORTED_VERSION): ...


class TopicAlreadyExists(KafkaError, error_code=ErrorCode.TOPIC_ALREADY_EXISTS): ...


class InvalidPartitions(KafkaError, error_code=ErrorCode.INVALID_PARTITIONS): ...


class InvalidReplicationFactor(KafkaError, error_code=ErrorCode.INVALID_REPLICATION_FACTOR): ...


class InvalidReplicaAssignment(KafkaError, error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT): ...


class InvalidConfig(KafkaError, error_code=ErrorCode.INVALID_CONFIG): ...


class NotController(KafkaError, error_code=ErrorCode.NOT_CONTROLLER): ...


class InvalidRequest(KafkaError, error_code=ErrorCode.INVALID_REQUEST): ...


class PolicyViolation(KafkaError, error_code=ErrorCode.POLICY_VIOLATION): ...


class ReassignmentInProgress(KafkaError, error_code=ErrorCode.REASSIGNMENT_IN_PROGRESS): ...


class ListenerNotFound(KafkaError, error_code=ErrorCode.LISTENER_NOT_FOUND): ...


class TopicDeletionDisabled(KafkaError, error_code=ErrorCode.TOPIC_DELETION_DISABLED): ...


class StaleBrokerEpoch(KafkaError, error_code=ErrorCode.STALE_BROKER_EPOCH): ...


class PreferredLeaderNotAvailable(
    KafkaError, error_code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
): ...


class EligibleLeadersNotAvailable(
    KafkaError, error_code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
): ...


class ElectionNotNeeded(KafkaError, error_code=ErrorCode.ELECTION_NOT_NEEDED): ...


class NoReassignmentInProgress(KafkaError, error_code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS): ...


class ThrottlingQuotaExceeded(KafkaError, error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED): ...


class FeatureUpdateFailed(KafkaError, error_code=ErrorCode.FEATURE_UPDATE_FAILED): ...


class IneligibleReplica(KafkaError, error_code=ErrorCode.INELIGIBLE_REPLICA): ...


# Authentication and authorization


class TopicAuthorizationFailed(KafkaError, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED): ...


class GroupAuthorizationFailed(KafkaError, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED): ...


class ClusterAuthorizationFailed(KafkaError, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED): ...


class UnsupportedSaslMechanism(KafkaError, error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM): ...


class IllegalSaslState(KafkaError, error_code=ErrorCode.ILLEGAL_SASL_STATE): ...


class TransactionalIdAuthorizationFailed(
    KafkaError, error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
): ...


class SecurityDisabled(KafkaError, error_code=ErrorCode.SECURITY_DISABLED): ...


class SaslAuthenticationFailed(KafkaError, error_code=ErrorCode.SASL_AUTHENTICATION_FAILED): ...


class InvalidPrincipalType(KafkaError, error_code=ErrorCode.INVALID_PRINCIPAL_TYPE): ...


class ResourceNotFound(KafkaError, error_code=ErrorCode.RESOURCE_NOT_FOUND): ...


class DuplicateResource(KafkaError, error_code=ErrorCode.DUPLICATE_RESOURCE): ...


class UnacceptableCredential(KafkaError, error_code=ErrorCode.UNACCEPTABLE_CREDENTIAL): ...
