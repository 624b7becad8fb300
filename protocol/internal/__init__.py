"""Schemas of messages that are stored on disk or embedded in other messages as bytes.

They correspond to the coordinator records and embedded messages of Kafka's JSON definitions.

group_log.py            __consumer_offsets: offsets and classic groups
consumer_group_log.py   __consumer_offsets: groups of the KIP-848 protocol
share_group_log.py      __consumer_offsets: share groups
transaction_log.py      __transaction_state
producer_snapshot.py    the .snapshot file of a partition
consumer_protocol.py    subscription and assignment of consumer group members
quorum_records.py       control records of a KRaft log
principal.py            the principal of a forwarded request
key_partition.py        the partition of an internal topic that a key hashes to
coordinator_record.py   the int16 version before every key and value of an internal topic
"""
