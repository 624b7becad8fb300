"""Fetch requests: fetch sessions, reading partitions, delayed fetches, and offset lookup.

Kafka: FetchSession and FetchManager, ReplicaManager.readFromLog, DelayedFetch, ReplicaSelector,
and the fetch part of KafkaApis.

fetch_partition.py      a partition of a fetch, and what was last sent for it
dirty_partitions.py     the partitions of a fetch that must be read, and the watchers of the others
fetch_session.py        incremental fetches of one client (KIP-227)
fetch_session_cache.py  the sessions of all clients, with a limited number of slots
fetch_reader.py         reads all partitions of a fetch within its limits
delayed_fetch.py        a fetch that waits for min_bytes or its timeout
partition_reader.py     reads one partition
replica_selector.py     preferred read replica of a consumer (KIP-392)
down_conversion.py      records in old formats for old clients
offset_lookup.py        offsets for timestamps, within the isolation level
"""
