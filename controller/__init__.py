"""The cluster controller and the metadata store (ZooKeeper) that it reads and writes.

Kafka: the packages kafka.controller and kafka.zk (KafkaController, ControllerContext,
ControllerChannelManager, ZkPartitionStateMachine, ZkReplicaStateMachine, TopicDeletionManager,
KafkaZkClient, AdminZkClient, DynamicConfigManager).

Model and decisions:

    replica_assignment.py         the replicas of a partition, with those being added and removed
    leader_and_isr.py             leader, ISR and epochs of a partition
    partition_state.py            the states of a partition and their transitions, as a table
    replica_state.py              the states of a replica and their transitions, as a table
    leader_election.py            the leader election strategies
    replica_placement.py          assignment of new partitions to brokers
    controller_context.py         the controller's in-memory model of the cluster
    metadata_version.py           what inter.broker.protocol.version allows

Metadata store and control requests:

    metadata_reader.py            reads of the controller from the metadata store
    metadata_writer.py            writes of the controller, fenced by the controller epoch
    leader_and_isr_updater.py     updates of leader and ISR, in the store and then in the context
    partition_state_machine.py    moves partitions between states
    replica_state_machine.py      moves replicas between states
    control_request_builder.py    builds LeaderAndIsr, UpdateMetadata and StopReplica requests
    request_batch.py              the requests to brokers that one event causes
    controller_channel.py         one request queue per broker: in order, retried until it responds

Event processing:

    registration.py               registers a broker in the store
    broker_changes.py             brokers start, fail and restart
    offline_replicas.py           replicas go offline with their broker or log directory
    log_dir_failures.py           log directories fail
    controlled_shutdown.py        a broker requests a controlled shutdown
    features.py                   the finalized features of the cluster
    feature_updates.py            validation of feature updates
    topic_changes.py              topics and partitions are created
    topic_deletion_requests.py    topics are marked for deletion in the store
    topic_deletion_manager.py     deletes the marked topics
    reassignment.py               moves the replicas of partitions to other brokers
    reassignment_requests.py      validation of reassignment requests
    replica_removal.py            removes replicas from a partition permanently
    isr_changes.py                changes the ISR of partitions
    alter_partition.py            the AlterPartition request and response by version
    replica_leader_elections.py   preferred and requested leader elections
    producer_ids.py               allocates blocks of producer ids
    controller_responses.py       handles the responses of brokers to control requests

Life cycle of the controller:

    controller.py                 the controller as the rest of its broker sees it
    controller_elector.py         election, resignation and session expiry
    controller_znode.py           /controller and /controller_epoch
    active_controller.py          the parts of the controller between election and resignation
    controller_services.py        the services that all event handlers share
    events.py                     the controller events
    controller_event_manager.py   the event queue, which processes one event at a time
    event_handlers.py             the table from event to handler
    znode_change_handlers.py      the table from znode watch to event
    controller_settings.py        the settings of the controller

Administration that any broker does, by writing to the store:

    topic_admin.py                creates topics, adds partitions, marks topics for deletion
    topic_planning.py             validation of requests to create topics and partitions
    topic_names.py                topic name rules and topic ids
    config_admin.py               changes configurations
    config_alterations.py         validation of configuration changes

Notifications that every broker reads from the store:

    dynamic_config_manager.py     configuration changes

Foundations:

    store/                        the metadata store and its ZooKeeper client
    zookeeper_settings.py         how to connect to ZooKeeper
    zookeeper_server.py           starts a ZooKeeper server
    tied_process.py               a child process that ends with its parent
"""
