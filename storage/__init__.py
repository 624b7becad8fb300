"""The log of a partition on disk, and the log manager that owns all logs of a broker.

Kafka: the packages kafka.log and org.apache.kafka.storage.internals.log (UnifiedLog, LocalLog,
LogSegment, LogLoader, LogManager, LogCleaner, ProducerStateManager, LeaderEpochFileCache).

All code here is synchronous, with one writer per log.  It uses no event loop, clock, metric or
replica.

A log:

    unified_log.py                one partition's log: append, read, roll; its offsets
    log_segments.py               the segments of a log, in order
    open_segments.py              limits how many segments of a log are open
    log_segment.py                one .log file and its indexes
    max_timestamp.py              the largest timestamp of a segment whose time index lags
    timestamp_lookup.py           the offset that belongs to a timestamp
    segment_roll.py               when to roll a new segment
    retention.py                  segments that breach retention time, size or log start offset
    log_truncation.py             truncates the end of a log
    leader_epoch_file_cache.py    the start offset of each leader epoch
    flush_plan.py                 the files to flush for a new recovery point
    log_loader.py                 opens a log directory after a clean or an unclean shutdown
    index_sanity_check.py         checks the indexes of a segment when the log is opened
    segment_recovery.py           recovers a segment after an unclean shutdown
    segment_split.py              splits a segment whose offsets overflow its indexes
    swap_recovery.py              finishes or undoes a compaction that a crash interrupted
    txn_index_sanity_check.py     compares .txnindex with the batches
    validation/                   validates records and assigns their offsets
    producer_state/               sequences, epochs and open transactions of producers

The files of a log:

    paths.py                      names of directories and files
    batch_scan.py                 iterates over the batches of a .log file
    mapped_entries.py             memory-mapped array of entries, used by the next two
    offset_index.py               .index: from an offset to a position
    time_index.py                 .timeindex: from a timestamp to an offset
    transaction_index.py          .txnindex: aborted transactions
    partition_metadata.py         partition.metadata: the topic id of the log
    open_file.py                  a file that stays open while it is referenced
    files.py                      every call that changes files
    segment_deletion.py           renames files first and removes them later

All logs of a broker:

    manager/                      loads, creates, finds, moves, deletes and closes logs
    cleaner/                      compaction
    meta_properties.py            meta.properties: the broker and the cluster of a log directory
    clean_shutdown.py             .kafka_cleanshutdown: marker of a clean shutdown
    checkpoint.py                 the text format of checkpoint files
    offset_checkpoints.py         the four checkpoints that hold an offset for each partition

Settings:

    settings.py                   settings of a topic
    topic_settings_registry.py    settings of every topic, by topic name
    log_settings.py               settings of the server for logs
    setting_checks.py             checks of single values

Tools:

    dump/                         prints the content of the files and reports damage
    format_reference.py           copies module docstrings into docs/storage-format.md
"""
