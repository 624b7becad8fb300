"""The broker: one server process that speaks Kafka's protocol.  Kafka: the package kafka.server.

The path of a request and of its response:

    network/              acceptors, processors and connections: they split bytes into frames
    router.py             header, version, decoding, error responses, encoding (Kafka: KafkaApis)
    request_log.py        the request log: request, response and the time of each stage
    routes.py             the table from API key to handler, with the services of each handler
    request.py            Request, RequestContext and DelayedOperation
    loopback_client.py    a client that calls the handlers of this broker directly
    controller_client.py  requests from this broker to the active controller
    time_slice.py         cooperative time slices for long work on the event loop
    handlers/             one small module for each API, which translates
    replicas/             the partitions: append, read, lead, follow, stop
    fetching/             fetch sessions and the data of fetch responses
    metadata/             the metadata cache, which the controller keeps current
    admin/                describing and altering configurations
    coordinator/          common parts of the coordinators, whose state is in internal topics
    groups/               the group coordinator and committed offsets
    transactions/         the transaction coordinator and producer ids
    settings/             all settings and their sources

Start-up, background work and shutdown:

    server.py             start and stop of the whole broker (Kafka: KafkaServer)
    assembly.py           constructs and connects the parts that serve requests
    services.py           the parts that handlers use
    identity.py           broker id, cluster id and the registration of this broker
    assigned_partitions.py  finds stray and lost partitions at start-up
    metadata_store.py     opens the metadata store: ZooKeeper or a local file
    broker_state.py       BrokerState, with Kafka's numbers
    startup_errors.py     the start-up errors that are reported in one line
    startup_gate.py       delays requests of clients until the broker is ready
    diagnostics.py        counts of tasks, connections and waiting requests
    task_registry.py      background tasks and scheduled jobs (Kafka: KafkaScheduler)
    disk_executor.py      threads for blocking system calls
    worker_process.py     a process for long computations
    record_inspector.py   reads the records of large batches in a worker process
    batch_search.py       timestamp lookups, with the help of the record inspector
    recovery_workers.py   processes that recover logs
    log_maintenance.py    flush, retention, compaction, checkpoints and deletion of logs
    schedules.py          the intervals of log maintenance and of the coordinators
    unclean_election_observer.py  reports topics that start to allow unclean leader election
    log_events.py         receives warnings and failures from the logs
    clock.py              the system clock
    logging_setup.py      the format and levels of the broker's log
    cli/                  the command line
"""
