"""ErrorCode: the error codes of the protocol. Kafka: Errors.

The numbers and names are the protocol's.  *Retriable*: the client may send the same request again.
*Refreshes metadata*: the client should refresh its metadata before it retries, because it sent the
request to the wrong broker.

Owner: none; immutable, any thread.
"""

from enum import Enum


class ErrorCode(Enum):
    """name = (code, retriable, refreshes metadata, default message to the client)"""

    UNKNOWN_SERVER_ERROR = (-1, False, False, "The broker failed with an unexpected error.")
    NONE = (0, False, False, "")
    OFFSET_OUT_OF_RANGE = (1, False, False, "The offset is outside the log.")
    CORRUPT_MESSAGE = (2, True, False, "The record data is damaged or malformed.")
    UNKNOWN_TOPIC_OR_PARTITION = (3, True, True, "This broker does not host the partition.")
    INVALID_FETCH_SIZE = (4, False, False, "The size to fetch is not valid.")
    LEADER_NOT_AVAILABLE = (5, True, True, "The partition has no leader at the moment.")
    NOT_LEADER_OR_FOLLOWER = (6, True, True, "This broker is not the leader or a replica.")
    REQUEST_TIMED_OUT = (7, True, False, "The request was not completed in time.")
    BROKER_NOT_AVAILABLE = (8, False, False, "The broker is not reachable.")
    REPLICA_NOT_AVAILABLE = (9, True, True, "The replica is not usable at the moment.")
    MESSAGE_TOO_LARGE = (10, False, False, "The record batch is larger than the broker accepts.")
    STALE_CONTROLLER_EPOCH = (11, False, False, "A newer controller has taken over.")
    OFFSET_METADATA_TOO_LARGE = (12, False, False, "The offset's metadata is too long.")
    NETWORK_EXCEPTION = (13, True, True, "The connection closed before the response arrived.")
    COORDINATOR_LOAD_IN_PROGRESS = (14, True, False, "The coordinator is still loading its log.")
    COORDINATOR_NOT_AVAILABLE = (15, True, False, "No coordinator is available at the moment.")
    NOT_COORDINATOR = (16, True, False, "Another broker coordinates this group or transaction.")
    INVALID_TOPIC_EXCEPTION = (17, False, False, "The topic is internal, or its name invalid.")
    RECORD_LIST_TOO_LARGE = (18, False, False, "The batches together are larger than a segment.")
    NOT_ENOUGH_REPLICAS = (19, True, False, "The ISR is smaller than min.insync.replicas.")
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (20, True, False, "Appended, but to too few replicas.")
    INVALID_REQUIRED_ACKS = (21, False, False, "acks must be -1, 0 or 1.")
    ILLEGAL_GENERATION = (22, False, False, "The generation is not the group's current one.")
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        False,
        False,
        "The member shares no protocol with the group.",
    )
    INVALID_GROUP_ID = (24, False, False, "The group id is not valid.")
    UNKNOWN_MEMBER_ID = (25, False, False, "The group has no member with this id.")
    INVALID_SESSION_TIMEOUT = (26, False, False, "The session timeout is not within limits.")
    REBALANCE_IN_PROGRESS = (27, False, False, "The group is rebalancing; join again.")
    INVALID_COMMIT_OFFSET_SIZE = (28, False, False, "The offset commit record is too large.")
    TOPIC_AUTHORIZATION_FAILED = (29, False, False, "No permission for this topic.")
    GROUP_AUTHORIZATION_FAILED = (30, False, False, "No permission for this group.")
    CLUSTER_AUTHORIZATION_FAILED = (31, False, False, "No permission on the cluster.")
    INVALID_TIMESTAMP = (32, False, False, "A record's timestamp is outside the permitted range.")
    UNSUPPORTED_SASL_MECHANISM = (33, False, False, "The broker does not support this mechanism.")
    ILLEGAL_SASL_STATE = (34, False, False, "The SASL state does not allow this request.")
    UNSUPPORTED_VERSION = (35, False, False, "The broker does not support this API version.")
    TOPIC_ALREADY_EXISTS = (36, False, False, "The topic already exists.")
    INVALID_PARTITIONS = (37, False, False, "The number of partitions is not valid.")
    INVALID_REPLICATION_FACTOR = (38, False, False, "The replication factor is not valid.")
    INVALID_REPLICA_ASSIGNMENT = (39, False, False, "The replica assignment is not valid.")
    INVALID_CONFIG = (40, False, False, "The configuration is not valid.")
    NOT_CONTROLLER = (41, True, False, "This broker is not the controller.")
    INVALID_REQUEST = (42, False, False, "The request is inconsistent or malformed.")
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (43, False, False, "The record format does not support it.")
    POLICY_VIOLATION = (44, False, False, "A policy of the cluster forbids the request.")
    OUT_OF_ORDER_SEQUENCE_NUMBER = (45, False, False, "Earlier sequence numbers are missing.")
    DUPLICATE_SEQUENCE_NUMBER = (46, False, False, "This sequence number was written before.")
    INVALID_PRODUCER_EPOCH = (47, False, False, "The producer's epoch is out of date.")
    INVALID_TXN_STATE = (48, False, False, "The transaction's state does not allow this.")
    INVALID_PRODUCER_ID_MAPPING = (49, False, False, "The transactional id has another one.")
    INVALID_TRANSACTION_TIMEOUT = (50, False, False, "The transaction timeout is above the limit.")
    CONCURRENT_TRANSACTIONS = (51, True, False, "The previous operation is still in progress.")
    TRANSACTION_COORDINATOR_FENCED = (52, False, False, "Another coordinator has taken over.")
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (53, False, False, "No permission for this id.")
    SECURITY_DISABLED = (54, False, False, "Security is disabled.")
    OPERATION_NOT_ATTEMPTED = (55, False, False, "Not attempted, because an earlier step failed.")
    KAFKA_STORAGE_ERROR = (56, True, True, "The broker cannot read or write the log's disk.")
    LOG_DIR_NOT_FOUND = (57, False, False, "The broker has no such log directory.")
    SASL_AUTHENTICATION_FAILED = (58, False, False, "The credentials were rejected.")
    UNKNOWN_PRODUCER_ID = (59, False, False, "The broker does not know this producer id.")
    REASSIGNMENT_IN_PROGRESS = (60, False, False, "The partition is already being reassigned.")
    DELEGATION_TOKEN_AUTH_DISABLED = (61, False, False, "Delegation tokens are disabled.")
    DELEGATION_TOKEN_NOT_FOUND = (62, False, False, "The delegation token does not exist.")
    DELEGATION_TOKEN_OWNER_MISMATCH = (63, False, False, "The token has another owner.")
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (64, False, False, "Not allowed on this connection.")
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (65, False, False, "No permission for tokens.")
    DELEGATION_TOKEN_EXPIRED = (66, False, False, "The delegation token has expired.")
    INVALID_PRINCIPAL_TYPE = (67, False, False, "This type of principal is not supported.")
    NON_EMPTY_GROUP = (68, False, False, "The group still has members.")
    GROUP_ID_NOT_FOUND = (69, False, False, "There is no group with this id.")
    FETCH_SESSION_ID_NOT_FOUND = (70, True, False, "The broker does not have this fetch session.")
    INVALID_FETCH_SESSION_EPOCH = (71, True, False, "The fetch session has another epoch.")
    LISTENER_NOT_FOUND = (72, True, True, "The leader does not have the request's listener.")
    TOPIC_DELETION_DISABLED = (73, False, False, "Topic deletion is disabled.")
    FENCED_LEADER_EPOCH = (74, True, True, "The request has an older leader epoch.")
    UNKNOWN_LEADER_EPOCH = (75, True, False, "The request has a newer leader epoch.")
    UNSUPPORTED_COMPRESSION_TYPE = (76, False, False, "The compression type cannot be used here.")
    STALE_BROKER_EPOCH = (77, False, False, "The broker has a newer registration.")
    OFFSET_NOT_AVAILABLE = (78, True, False, "The new leader cannot confirm the offset yet.")
    MEMBER_ID_REQUIRED = (79, False, False, "Join again with the member id of the response.")
    PREFERRED_LEADER_NOT_AVAILABLE = (80, True, True, "The preferred replica cannot lead.")
    GROUP_MAX_SIZE_REACHED = (81, False, False, "The group is full.")
    FENCED_INSTANCE_ID = (82, False, False, "Another member uses this instance id.")
    ELIGIBLE_LEADERS_NOT_AVAILABLE = (83, True, True, "No replica is eligible to lead.")
    ELECTION_NOT_NEEDED = (84, True, True, "The partition already has the requested leader.")
    NO_REASSIGNMENT_IN_PROGRESS = (85, False, False, "The partition is not being reassigned.")
    GROUP_SUBSCRIBED_TO_TOPIC = (86, False, False, "The group is subscribed to the topic.")
    INVALID_RECORD = (87, False, False, "The broker rejected an invalid record.")
    UNSTABLE_OFFSET_COMMIT = (88, True, False, "Offsets are pending in an open transaction.")
    THROTTLING_QUOTA_EXCEEDED = (89, True, False, "The quota is exceeded.")
    PRODUCER_FENCED = (90, False, False, "A newer producer uses this transactional id.")
    RESOURCE_NOT_FOUND = (91, False, False, "The resource does not exist.")
    DUPLICATE_RESOURCE = (92, False, False, "The request names a resource twice.")
    UNACCEPTABLE_CREDENTIAL = (93, False, False, "The credential does not meet the requirements.")
    INCONSISTENT_VOTER_SET = (94, False, False, "The voter sets differ.")
    INVALID_UPDATE_VERSION = (95, False, False, "The update's version is not valid.")
    FEATURE_UPDATE_FAILED = (96, False, False, "The features could not be updated.")
    PRINCIPAL_DESERIALIZATION_FAILURE = (97, False, False, "The principal cannot be decoded.")
    SNAPSHOT_NOT_FOUND = (98, False, False, "The snapshot does not exist.")
    POSITION_OUT_OF_RANGE = (99, False, False, "The position is outside the snapshot.")
    UNKNOWN_TOPIC_ID = (100, True, True, "This broker hosts no topic with this id.")
    DUPLICATE_BROKER_REGISTRATION = (101, False, False, "The broker id is registered.")
    BROKER_ID_NOT_REGISTERED = (102, False, False, "The broker id is not registered.")
    INCONSISTENT_TOPIC_ID = (103, True, True, "The log belongs to another topic id.")
    INCONSISTENT_CLUSTER_ID = (104, False, False, "The request has another cluster's id.")
    TRANSACTIONAL_ID_NOT_FOUND = (105, False, False, "There is no such transactional id.")
    FETCH_SESSION_TOPIC_ID_ERROR = (106, True, False, "A session mixes topic ids and names.")
    INELIGIBLE_REPLICA = (107, False, False, "A replica is not eligible for the ISR.")
    NEW_LEADER_ELECTED = (108, False, False, "The change elected a new leader.")
    OFFSET_MOVED_TO_TIERED_STORAGE = (109, False, False, "The offset is in remote storage only.")
    FENCED_MEMBER_EPOCH = (110, False, False, "The group has a newer epoch of this member.")
    UNRELEASED_INSTANCE_ID = (111, False, False, "The instance id is still in use.")
    UNSUPPORTED_ASSIGNOR = (112, False, False, "The coordinator does not support this assignor.")
    STALE_MEMBER_EPOCH = (113, False, False, "The member's epoch is behind; heartbeat, then retry.")
    MISMATCHED_ENDPOINT_TYPE = (114, False, False, "This endpoint serves other requests.")
    UNSUPPORTED_ENDPOINT_TYPE = (115, False, False, "This endpoint type is not supported.")
    UNKNOWN_CONTROLLER_ID = (116, False, False, "There is no controller with this id.")
    UNKNOWN_SUBSCRIPTION_ID = (117, False, False, "The telemetry subscription is out of date.")
    TELEMETRY_TOO_LARGE = (118, False, False, "The telemetry is larger than the broker accepts.")
    INVALID_REGISTRATION = (119, False, False, "The registration is not valid.")
    TRANSACTION_ABORTABLE = (120, False, False, "The transaction failed and must be aborted.")
    INVALID_RECORD_STATE = (121, False, False, "The record's state does not allow this.")
    SHARE_SESSION_NOT_FOUND = (122, True, False, "The broker does not have this share session.")
    INVALID_SHARE_SESSION_EPOCH = (123, True, False, "The share session has another epoch.")
    FENCED_STATE_EPOCH = (124, False, False, "The share state was written at a newer epoch.")
    INVALID_VOTER_KEY = (125, False, False, "The voter's key does not match the stored one.")
    DUPLICATE_VOTER = (126, False, False, "The voter is already in the set.")
    VOTER_NOT_FOUND = (127, False, False, "The voter is not in the set.")
    INVALID_REGULAR_EXPRESSION = (128, False, False, "The regular expression is invalid.")
    REBOOTSTRAP_REQUIRED = (129, False, False, "The client must rebootstrap its metadata.")
    STREAMS_INVALID_TOPOLOGY = (130, False, False, "The topology is not valid.")
    STREAMS_INVALID_TOPOLOGY_EPOCH = (131, False, False, "The topology's epoch is not valid.")
    STREAMS_TOPOLOGY_FENCED = (132, False, False, "The group has a newer topology.")
    SHARE_SESSION_LIMIT_REACHED = (133, True, False, "The broker has too many share sessions.")

    def __init__(self, code: int, retriable: bool, refreshes_metadata: bool, message: str) -> None:
        self.code = code
        self.retriable = retriable
        self.refreshes_metadata = refreshes_metadata
        self.message = message

    @classmethod
    def for_code(cls, code: int) -> "ErrorCode":
        """Return the member with this number; an unknown number is UNKNOWN_SERVER_ERROR."""
        return _BY_CODE.get(code, cls.UNKNOWN_SERVER_ERROR)


_BY_CODE = {error.code: error for error in ErrorCode}
