"""The daemon: one broker that real clients use.

The way of a request, and of its answer:

    network/           acceptor, processor, connection: bytes come in, and become frames
    router.py          header, version, decoding; refusals; encoding
    request_log.py     what came, what was answered, and how long each stage took
    routes.py          which handler answers which API, and what it may touch
    call.py            what a handler is told of a request
    own_client.py      this broker as a client of itself
    controller_client.py  what it asks of the controller, wherever that is
    turns.py           much work in small turns, for others to have theirs
    handlers/          one small module for each API: it translates
    replicas/          the partitions: append, read, lead, follow, stop
    fetching/          what a Fetch is to be given, and what it was given before
    metadata/          the cluster, as its controller tells of it
    admin/             configurations shown and changed
    coordinator/       what coordinators share: their state is a partition of an internal topic
    groups/            groups of consumers, and their offsets
    transactions/      transactions, and ids for producers
    settings/          what a broker can be told, and what it was told

How it is put together and runs:

    server.py          the broker as a whole: start and stop
    assembly.py        the parts that serve requests, put together
    services.py        those of them that handlers use
    identity.py        which broker this is, of which cluster
    own_partitions.py  which of the logs here are whose
    store.py           where the cluster's metadata is kept
    broker_state.py    where it is in its life
    failures.py        why it could not start
    held_back.py       who has to wait until it has
    in_hand.py         what it has to do with at a moment, for whoever wonders
    background.py      tasks, and jobs that come round again
    disk.py            threads for what sleeps in the kernel
    worker.py          a process for what computes
    record_reader.py   the one that reads the records of large batches
    record_looks.py    lookups by timestamp, with its help
    recovery_workers.py  processes that recover logs
    log_care.py        what is done to logs from time to time
    schedules.py       when
    unclean_elections.py  when the controller may hold them
    log_events.py      what logs report unasked
    clock.py           the system's clock
    logs.py            how it writes its own log
    cli/               the command line
"""
