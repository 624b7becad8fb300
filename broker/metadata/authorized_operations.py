"""Authorized operations without an authorizer: every operation that applies (KIP-430).

A set of operations is a bit field with one bit per operation; operations that do not apply to a
resource type are not included.

Owner: none; immutable, any thread.
"""

from enum import IntEnum
from functools import reduce
from operator import or_

#: The value of the field if the request does not ask for authorized operations.
AUTHORIZED_OPERATIONS_OMITTED = -(2**31)


class AclOperation(IntEnum):
    """Operations, numbered as in ``describe_acls.py``."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def to_bit_field(*operations: AclOperation) -> int:
    return reduce(or_, (1 << operation for operation in operations), 0)


TOPIC_OPERATIONS = to_bit_field(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
GROUP_OPERATIONS = to_bit_field(AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE)
#: A consumer group (KIP-848) also has configs.
CONSUMER_GROUP_OPERATIONS = GROUP_OPERATIONS | to_bit_field(
    AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
)
CLUSTER_OPERATIONS = to_bit_field(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)
