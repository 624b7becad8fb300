"""The group coordinator: group membership, partition assignment and committed offsets.

Each partition of ``__consumer_offsets`` that this broker leads is one shard.  A shard holds the
groups whose ids hash to the partition, and the offsets committed under those ids.  A group is a
classic group or a consumer group.  Offsets belong to a group id; they exist with or without a group
of that id.

Kafka: GroupCoordinatorService, GroupCoordinatorShard, GroupMetadataManager, OffsetMetadataManager.

    coordinator.py      the shards, and the lookup of a group's shard
    shard.py            the groups and offsets of one partition, and its log
    context.py          the clock, id generator and settings that groups use
    owning_shard.py     the part of a shard that a group uses
    group.py            the interface that classic and consumer groups share
    records.py          keys and values of offsets and classic groups in the log
    offsets.py          the offsets of one group id, committed and pending
    offset_commits.py   OffsetCommit, TxnOffsetCommit and OffsetDelete
    zookeeper_offsets.py    offsets that OffsetCommit v0 stores in ZooKeeper
    offset_expiry.py    expiration of offsets, and of groups without offsets
    expiration_timer.py     a timer that a heartbeat resets
    classic/            groups whose leader assigns: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
    consumer/           groups whose broker assigns (KIP-848): ConsumerGroupHeartbeat
"""
