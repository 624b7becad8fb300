"""Where Odradek answers otherwise than Apache Kafka, and why that is meant.

By the name of the scenario.  An entry that covers nothing any more fails the test of its scenario.
"""

from collections.abc import Mapping, Sequence, Set

from odradek.protocol.api_keys import ApiKey
from tests.interop.differential_compare import ABSENT, Meant
from tests.interop.differential_side import SILENT
from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1

#: Served in versions that neither release has.
UNKNOWN_TO_KAFKA: Set[tuple[ApiKey, int]] = frozenset()

_TIERED = r"(local\.retention\..*|remote\..*)"
_GONE = r"message\.(downconversion\.enable|format\.version|timestamp\.difference\.max\.ms)"
_LINE = r"responses\[.*\]\.partition_responses\[0\]"

_NOT_FILLED_UP = Meant(
    ApiKey.FETCH,
    "Kafka says how much it will send before it converts records for old clients, and fills up "
    "with part of a message; we send what there is.",
    path=r".*\.records\.bytes of a batch that is cut",
    ours=0,
    releases=[KAFKA_3_9],
)

_GROUPS_WITHOUT_SETTINGS = Meant(
    ApiKey.DESCRIBE_GROUPS,
    "Classic groups have no settings of their own, and are shown as by 3.9.1, which does not say "
    "that one may change them.",
    path=r".*\.authorized_operations",
    releases=[KAFKA_4_1],
)

#: In every scenario.
EVERYWHERE = [
    Meant(
        ApiKey.CREATE_TOPICS,
        "Tiered storage is not served, so topics have no settings for it.",
        path=rf"topics\[.*\]\.configs\[{_TIERED}\]",
        ours=ABSENT,
    ),
    Meant(
        ApiKey.CREATE_TOPICS,
        "Topics have the settings of 3.9.1, of which 4.0 took some away.",
        path=rf"topics\[.*\]\.configs\[{_GONE}\]",
        kafka=ABSENT,
        releases=[KAFKA_4_1],
    ),
    Meant(
        ApiKey.CREATE_TOPICS,
        "A cluster of KRaft has this one as a setting of all brokers from the beginning.",
        path=r"topics\[.*\]\.configs\[min\.insync\.replicas\]\.config_source",
        releases=[KAFKA_4_1],
    ),
]

MEANT: Mapping[str, Sequence[Meant]] = {
    "produce": [
        Meant(
            ApiKey.PRODUCE,
            "Kafka fails over records that are null, and never answers; we refuse them.",
            steps="no records at all",
            kafka=SILENT,
        ),
        Meant(
            ApiKey.PRODUCE,
            "Kafka calls records that cannot be read an error of its own; we call them invalid.",
            steps="records that are none(, to a topic that takes any)?|packed rubbish",
            path=rf"{_LINE}\.error_code",
            kafka=-1,
        ),
        Meant(
            ApiKey.PRODUCE,
            "Where a topic demands nothing of records, we do not unpack them: that would take "
            "longer than all the rest.",
            steps="packed rubbish, to a topic that takes any",
        ),
        Meant(
            ApiKey.PRODUCE,
            "Kafka calls an unknown codec an error of its own; there is a code that says it.",
            steps="codec [57]",
        ),
        Meant(
            ApiKey.PRODUCE,
            "Of a partition that is named twice, Kafka loses all records but the last; we append "
            "all of them, and say so.",
            steps="one twice, .*",
        ),
    ],
    "fetch": [
        _NOT_FILLED_UP,
        Meant(
            ApiKey.FETCH,
            "We tell where the leader is even if that is here, as 3.9.1 does.",
            steps="as replica [15]",
            path="node_endpoints.*",
            releases=[KAFKA_4_1],
        ),
    ],
    "offsets": [
        Meant(
            ApiKey.LIST_OFFSETS,
            "We answer as 3.9.1 does, a line for each entry.",
            steps="a partition twice|another twice|no partitions",
            releases=[KAFKA_4_1],
        ),
    ],
    "reassignments": [
        Meant(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            "We answer as a controller with ZooKeeper does, and in one line for a partition.",
            steps="moved, .*",
            releases=[KAFKA_4_1],
        ),
    ],
    "metadata": [
        Meant(
            ApiKey.METADATA,
            "Creation by Metadata is as with ZooKeeper: refused at once, or under way.",
            steps="colliding|a topic that is made now",
            path=r"topics\[(md_x|md-auto-13)\]\.error_code",
            kafka=3,
            releases=[KAFKA_4_1],
        ),
    ],
    "partitions": [
        Meant(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            "Kafka fails over an empty name; we know no such topic.",
            steps=r".* of \('dp-t', ''\)",
            releases=[KAFKA_4_1],
        ),
    ],
    "conversions": [
        _NOT_FILLED_UP,
        Meant(
            ApiKey.FETCH,
            "For the same reason, Kafka leaves out batches that have become larger.",
            steps="c-new from [25], 1048576 bytes",
            path=r".*\.records\.batches",
        ),
        Meant(
            ApiKey.FETCH,
            "Kafka converts several batches at once, and sends none of them if one cannot be "
            "converted; we send those before it.",
            steps="c-zstd from .*",
            path=r".*\.records\.batches",
        ),
    ],
    "deleted records": [
        Meant(
            ApiKey.DELETE_RECORDS,
            "Of a partition that is named twice, Kafka forgets all but the last; we answer each.",
            steps="a partition twice",
        ),
    ],
    "growths": [
        Meant(
            ApiKey.CREATE_PARTITIONS,
            "Kafka's path in ZooKeeper is wrong for an empty name; we know no such topic.",
            steps="grown without a name",
        ),
    ],
    "elections": [
        Meant(
            ApiKey.ELECT_LEADERS,
            "Where all is refused, Kafka repeats what was repeated; we name each partition once.",
            steps="elected, some by 7",
        ),
    ],
    "versions": [
        Meant(
            ApiKey.API_VERSIONS,
            "Each says what it serves: here no ACLs yet, but versions and APIs that 3.9.1 has not.",
            path=r"api_keys\[\d+\](\.(min|max)_version)?",
        ),
        Meant(
            ApiKey.API_VERSIONS,
            "Clusters with ZooKeeper begin without features; ours are alone with their store, and "
            "begin as those of later releases do.",
            path=r"(supported|finalized)_features\[transaction\.version\]",
            kafka=ABSENT,
        ),
    ],
    "configs": [
        Meant(
            ApiKey.DESCRIBE_CONFIGS,
            "Tiered storage is not served, so topics have no settings for it.",
            path=rf"results\[.*\]\.configs\[{_TIERED}\]",
            ours=ABSENT,
        ),
        Meant(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            "Kafka calls an unknown operation an error of its own; we call it the client's.",
            steps="an unknown operation",
        ),
        Meant(
            ApiKey.ALTER_CONFIGS,
            "Kafka fails, and never answers.",
            steps="replaced (twice|for other resources)",
            kafka=SILENT,
        ),
        Meant(
            ApiKey.DESCRIBE_CONFIGS,
            "Single groups are configured, as from 4.0 on (test_group_configs_live.py).",
            steps="a group.*",
            path=r"results\[g\]\..*",
        ),
        Meant(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            "Likewise, so that it is the setting which is wrong.",
            steps="a group changed",
            path=r"responses\[.*\]\.error_code",
            ours=40,
        ),
    ],
    "coordinators": [
        Meant(
            ApiKey.FIND_COORDINATOR,
            "We say in words what stands against a key; Kafka does so for one key alone.",
            steps="type 2",
            path=r"coordinators\[.*\]\.error_message",
            kafka="",
            releases=[KAFKA_3_9],
        ),
    ],
    "commits": [
        Meant(
            ApiKey.OFFSET_COMMIT,
            "Kafka gathers what stands in several entries, and leaves out what has no partitions; "
            "we answer entry by entry.",
            steps="committed, (too many words|unknown partitions|twice|no partitions)",
            path=r"topics\[.*\]",
            releases=[KAFKA_3_9],
        ),
        Meant(
            ApiKey.OFFSET_COMMIT,
            "The same, of what is committed to the partition twice or beside it.",
            steps="committed, (too many words|unknown partitions|twice)",
            path=r"topics\[grp-t\]\.partitions\[(1|7|0 again 2)\]",
            ours=ABSENT,
            releases=[KAFKA_3_9],
        ),
        Meant(
            ApiKey.OFFSET_FETCH,
            "Kafka answers each partition once, and leaves out topics without partitions; we "
            "answer entry by entry.",
            steps="what was committed, if stable|a topic without partitions",
            kafka=ABSENT,
            releases=[KAFKA_3_9],
        ),
        Meant(
            ApiKey.OFFSET_COMMIT,
            "Kafka's path in ZooKeeper is wrong for an empty name; we call the name invalid.",
            steps="committed with no name",
            kafka=-1,
            releases=[KAFKA_3_9],
        ),
        Meant(
            ApiKey.OFFSET_FETCH,
            "The same.",
            steps="of no name",
            kafka=-1,
            releases=[KAFKA_3_9],
        ),
    ],
    "lists": [_GROUPS_WITHOUT_SETTINGS],
    "deleted groups": [
        Meant(
            ApiKey.OFFSET_DELETE,
            "Kafka gathers what stands in several entries, and leaves out what has no partitions; "
            "we answer entry by entry.",
            steps="forgotten, (no partitions|one twice)",
            kafka=ABSENT,
            releases=[KAFKA_3_9],
        ),
    ],
    "members alone": [
        _GROUPS_WITHOUT_SETTINGS,
    ],
    "two members": [
        Meant(
            ApiKey.DESCRIBE_GROUPS,
            "Later releases show what was assigned before; we show nothing until it is settled, "
            "as 3.9.1 does.",
            steps="a group that waits for a|two who have joined",
            path=r".*\.member_assignment",
            ours=b"",
            releases=[KAFKA_4_1],
        ),
    ],
    "consumers": [],
    "strangers": [
        Meant(
            ApiKey.DESCRIBE_GROUPS,
            "Kafka makes a group for whoever wants to join, and keeps it if that is refused.",
            steps="nobody was let in",
            path=r".*\.group_state",
            ours="Dead",
            kafka="Empty",
            releases=[KAFKA_3_9],
        ),
    ],
    "refused transactions": [
        Meant(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            "Kafka gathers what stands in several entries; we answer entry by entry.",
            steps="unknown ones and a topic twice",
        ),
    ],
    "offsets in transactions": [
        Meant(
            ApiKey.TXN_OFFSET_COMMIT,
            "Kafka gathers what stands in several entries; we answer entry by entry.",
            steps="committed, twice",
            kafka=ABSENT,
            releases=[KAFKA_3_9],
        ),
    ],
    "fenced producers": [
        Meant(
            ApiKey.DESCRIBE_TRANSACTIONS,
            "3.9.1 goes on to show when the transaction before began; we show that there is none, "
            "as later releases do, and as 3.9.1 does after a restart.",
            steps="(made|who goes on) .*|who goes on",
            path=r".*\.transaction_start_time_ms",
            ours=-1,
            releases=[KAFKA_3_9],
        ),
        Meant(
            ApiKey.INIT_PRODUCER_ID,
            "Who asks by its epoch for the next, in mid-transaction, is given that when the "
            "transaction was aborted, as by later releases; 3.9.1 fences it.",
            steps="q goes on after it was aborted",
            releases=[KAFKA_3_9],
        ),
        Meant(
            ApiKey.DESCRIBE_TRANSACTIONS,
            "The same.",
            steps="who goes on after it was aborted",
            path=r".*\.(transaction_state|producer_epoch)",
            releases=[KAFKA_3_9],
        ),
    ],
    "verified transactions": [
        Meant(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            "Kafka leaves out topics without partitions.",
            steps="no partitions",
            kafka=ABSENT,
        ),
        Meant(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            "Kafka never answers who asks for no transaction.",
            steps="of none",
            kafka=SILENT,
        ),
    ],
    "transactional records": [
        _NOT_FILLED_UP,
        Meant(
            ApiKey.FETCH,
            "Where what old clients fetch begins with a marker, Kafka sends the records after it "
            "twice.",
            steps="read from 3",
            path=r".*\.records\.batches",
            releases=[KAFKA_3_9],
        ),
    ],
    "repeats": [
        _NOT_FILLED_UP,
        Meant(
            ApiKey.PRODUCE,
            "Kafka gathers what stands in several entries, and loses all records of a partition "
            "but the last; we append all of them, and answer entry by entry.",
            steps="produced, .*",
        ),
        Meant(
            ApiKey.DELETE_RECORDS,
            "Kafka gathers what stands in several entries; we answer entry by entry.",
            steps="deleted, .*",
            releases=[KAFKA_3_9],
        ),
        Meant(
            ApiKey.LIST_OFFSETS,
            "We answer as 3.9.1 does, a line for each entry.",
            steps="offsets, .*",
            releases=[KAFKA_4_1],
        ),
    ],
}
