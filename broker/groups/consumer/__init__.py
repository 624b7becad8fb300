"""Consumer groups, the groups of the consumer protocol (KIP-848): the broker assigns partitions.

A group has an epoch, which is incremented with every change of its members, of their subscriptions
and of the subscribed topics.  For each epoch an assignor computes the target assignment.  By its
heartbeats a member is reconciled: it moves from its current assignment to its target assignment.  A
member revokes partitions before other members get them.

Kafka: ConsumerGroup, ConsumerGroupMember, and the consumer half of GroupMetadataManager.

partitions.py        sets of partitions, and their form on the wire and in the log
assignor.py          the interface of an assignor
range_assignor.py      consecutive partitions of each topic
uniform_assignor.py    as even and as sticky as possible, for equal subscriptions
uniform_heterogeneous_assignor.py      the same for different subscriptions
assignors.py         the assignors by name

topics.py            the cluster's topics as groups see them
metadata_hash.py     a hash that changes when the topics of a group change
regular_expression.py  compiles and matches regular expressions with RE2
topic_regex_cache.py       the topics of the cluster that match a regular expression

member.py            one member: its metadata and its current assignment
records.py           builds and reads the records in the log
group.py             one group, and how records change it
group_update.py             the records of a decision, and the group they result in
target_assignment_builder.py            bumps the group epoch and computes the target assignment
current_assignment_builder.py         one step of reconciliation from current to target assignment
heartbeat.py         decides on a heartbeat
member_removal.py           members that leave or are removed
heartbeat_request.py validates and parses ConsumerGroupHeartbeat requests

consumer_group_runtime.py        a group with its log and its timers
requests.py          the entry points: find the group of a request and pass the request on
migration.py         upgrade of classic groups to consumer groups, and downgrade
classic_members.py   classic members in a consumer group
consumer_protocol_codec.py     subscriptions and assignments of classic members
"""
