"""One small module for each API: it translates requests into calls, and outcomes into responses.

A module is named as its API is in protocol/api/.  ``handle`` takes exactly what it needs and a
Call; ``refused``, where a response has no error code of its own, is the response to a request that
fails as a whole.

Obeying the controller:

    leader_and_isr.py         which partitions this broker leads and follows
    stop_replica.py           which it no longer does
    update_metadata.py        the picture of the cluster

Records:

    produce.py                append them
    produce_verification.py   those that begin a transaction, of which a coordinator must know
    produce_waits.py          answers that wait for followers or the disk
    produce_lines.py          what is told of those that are refused
    unread_records.py         those that have to be read first, elsewhere
    fetch.py                  read them, or wait for them
    list_offsets.py           at which offsets they are
    offset_for_leader_epoch.py  where a leader's ended
    delete_records.py         drop the oldest
    describe_producers.py     who has appended them

Log directories:

    describe_log_dirs.py      what lies in them
    alter_replica_log_dirs.py  move replicas between them

The cluster:

    api_versions.py           which APIs are served
    metadata.py               brokers, leaders and replicas
    describe_cluster.py       brokers alone
    describe_topic_partitions.py  topics page by page

Groups:

    find_coordinator.py       who coordinates them
    join_group.py             enter one
    sync_group.py             hand in and get assignments
    heartbeat.py              stay in it
    leave_group.py            leave it
    offset_commit.py          store how far it has read
    txn_offset_commit.py      as part of a transaction
    offset_fetch.py           ask for that
    offset_delete.py          forget it
    describe_groups.py        state and members
    list_groups.py            which there are
    delete_groups.py          delete them
    consumer_group_heartbeat.py  all that a member of the consumer protocol has to say
    consumer_group_describe.py  state and members of a group of that protocol

Transactions:

    init_producer_id.py       a producer gets its id and epoch
    add_partitions_to_txn.py  partitions that it writes to
    add_offsets_to_txn.py     offsets that it commits
    end_txn.py                commit or abort
    write_txn_markers.py      tell the partitions
    describe_transactions.py  state and partitions
    list_transactions.py      which there are
    transaction_answers.py    what these have in common

Topics:

    create_topics.py          create them
    create_partitions.py      let them grow
    delete_topics.py          delete them

Configurations:

    describe_configs.py       show them
    alter_configs.py          replace them
    incremental_alter_configs.py  change settings of them

Asking the controller:

    elect_leaders.py          who shall lead
    alter_partition_reassignments.py  where replicas shall be
    list_partition_reassignments.py   which are on their way
    update_features.py        which features are in force
    alter_partition.py        who is in sync
    allocate_producer_ids.py  blocks of producer ids
    controlled_shutdown.py    a broker is about to stop

What several need:

    each_resource.py          changes of which each resource succeeds or fails alone
    leader_hints.py           who should have been asked, and where that is
    refusals.py               a failure in words
    replicated.py             answers that wait until a group's log is replicated
"""
