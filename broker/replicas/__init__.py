"""The replicas of this broker: leading, following and moving partitions.

Kafka: kafka.server.ReplicaManager, kafka.cluster.Partition, the replica fetchers and their helpers.

    replica_manager.py                 all partitions of this broker; becomes leader or follower
    partition.py                       one partition: its role, its log and its watchers
    fetch_data_info.py                 the result of a read
    leader_state.py                    the leader's view: ISR, follower progress, high watermark
    alter_partition_manager.py         proposes ISR changes to the controller
    single_replica_isr.py              the ISR manager of a broker without other brokers
    replica_fetcher_manager.py         assigns followed partitions to fetchers
    replica_fetcher.py                 one connection to a leader: fetch, append, truncate
    partition_fetch_states.py          all partitions of a fetcher, and which of them are dirty
    partition_fetch_state.py           the fetch state of one partition
    fetch_session_handler.py           the follower's side of an incremental fetch session
    replication_quota_manager.py       replication throttles
    log_truncator.py                   truncates a follower's log while cleaning is paused
    truncation.py                      the truncation offset of a diverging log
    future_log.py                      compares a future log with its current log
    fetch_watcher.py                   callbacks of a partition for delayed fetches
    awaitable_offset.py                an increasing offset with waiters
    controller_fence.py                rejects requests of old controllers
    delayed_delete_records.py          DeleteRecords, until all replicas have the new start offset
    replica_alter_log_dirs_manager.py  moves replicas between log directories
    log_dir_descriptions.py            DescribeLogDirs: sizes and lags of logs
"""
