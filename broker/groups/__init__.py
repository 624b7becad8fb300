"""Groups of consumers: who is in them, what each member is to read, and how far they have read.

Each partition of ``__consumer_offsets`` that this broker leads is a shard: the groups whose ids
hash to it, and the offsets of those ids.  A group is of one kind or the other; offsets belong to an
id, whether there is a group of that id or not.

    coordinator.py      the shards, and which of them a group is in
    shard.py            one partition's groups and offsets, and its log
    world.py            what groups need of the world: time, ids, settings
    home.py             what a group needs of its shard
    group.py            what a group of any kind can tell
    records.py          keys and values of the log, and what each is applied to
    offsets.py          the offsets of one group id, committed and pending
    committing.py       OffsetCommit and its transactional twin, OffsetDelete
    old_offsets.py      where the oldest clients keep theirs: in the metadata store
    offset_expiry.py    when an offset is forgotten, and a group with it
    deadline.py         a moment that keeps being put off
    classic/            groups whose leader assigns: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
    consumer/           groups to which the broker assigns (KIP-848): ConsumerGroupHeartbeat
"""
