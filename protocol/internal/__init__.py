"""Messages that travel inside others or lie on disk, declared in the same language.

group_log.py            __consumer_offsets: offsets and classic groups
consumer_group_log.py   __consumer_offsets: groups of the KIP-848 protocol
share_group_log.py      __consumer_offsets: share groups
transaction_log.py      __transaction_state
producer_snapshot.py    the .snapshot file of a partition
consumer_protocol.py    subscription and assignment of consumer group members
quorum_records.py       control records of a KRaft log
principal.py            who a forwarded request came from
key_partition.py        which partition of an internal topic a key hashes to
log_record.py           the int16 version before every key and value of an internal topic
"""
