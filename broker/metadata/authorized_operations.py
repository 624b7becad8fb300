"""What anyone may do where there is no authorizer: everything that there is to do (KIP-430).

A set of operations is a number with a bit for each; those that do not apply to a kind of resource
are not among them.

Owner: none; immutable, any thread.
"""

from enum import IntEnum
from functools import reduce
from operator import or_

#: Nobody asked.
NOT_ASKED_FOR = -(2**31)


class Operation(IntEnum):
    """As ``describe_acls.py`` numbers them."""

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


def bits(*operations: Operation) -> int:
    return reduce(or_, (1 << operation for operation in operations), 0)


ON_A_TOPIC = bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
ON_A_GROUP = bits(Operation.READ, Operation.DELETE, Operation.DESCRIBE)
#: Which has settings of its own.
ON_A_CONSUMER_GROUP = ON_A_GROUP | bits(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
ON_THE_CLUSTER = bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
