"""Who leads what: the metadata store and the cluster controller.

What it knows and decides:

    assignment.py          which brokers have a replica of a partition
    leadership.py          who leads it, who is in sync, since when
    partition_state.py     the life of a partition: a table
    replica_state.py       the life of a replica: a table
    leader_election.py     who is to lead
    replica_placement.py   where new partitions go
    context.py             the controller's picture of the cluster

What it writes and says:

    metadata_reads.py      what the tree says
    metadata_writes.py     what the controller changes in it, as long as it is the controller
    leadership_changes.py  who leads and who is in sync, changed in the store, then in the context
    partition_machine.py   moves partitions from state to state
    replica_machine.py     moves replicas from state to state
    request_versions.py    what inter.broker.protocol.version means
    control_requests.py    LeaderAndIsr, UpdateMetadata and StopReplica as they go out
    request_batch.py       what brokers are to be told of one event
    broker_link.py         the way to each broker: in order, until answered

What it does, by the occasion:

    registration.py        a broker comes into the tree
    brokers.py             brokers come, go and return
    offline_replicas.py    replicas are gone, with their broker or their disk
    log_dirs.py            log directories fail
    controlled_shutdown.py a broker is about to stop
    features.py            what all brokers must support
    feature_updates.py     what of that may be changed
    topic_changes.py       topics come and grow in the tree
    deletion_requests.py   topics shall go
    topic_deletion.py      topics go
    reassignment.py        replicas move to other brokers
    reassignment_requests.py  what is asked of them, and whether it can be
    replica_removal.py     replicas leave a partition for good
    isr.py                 in-sync replicas change
    alter_partition.py     the request that they change by
    preferred_leaders.py   elections that nobody died for
    producer_ids.py        blocks of producer ids
    answers.py             brokers answer

How it runs:

    controller.py          the controller, as its broker sees it
    candidate.py           its way into office, and out of it
    election.py            who is the controller
    tenure.py              its time in office: everything put together
    machinery.py           what every part works with
    events.py              all that it reacts to
    event_queue.py         one event at a time
    duties.py              whose affair is which event
    tree_watches.py        which event is a change in the tree
    controller_settings.py its settings

What any broker does on request, by writing to the tree:

    topic_admin.py         topics created, grown and given up
    topic_requests.py      what is asked of a topic, and whether it can be
    topic_names.py         what a topic may be called, and its id
    config_admin.py        configurations changed
    config_alterations.py  what is asked of a configuration, and whether it can be

What any broker is told by the tree:

    config_changes.py      whose configuration has changed

What it stands on:

    store/                 where a cluster's metadata is kept
    settings.py            how to reach ZooKeeper
    zookeeper_server.py    a ZooKeeper to run on
    tied_process.py        a child that ends with its parent
"""
