"""One partition's log on disk, and the log manager over all of them.

Synchronous, one writer per log; knows no event loop, no clock, no metric, no replica.

A log:

    log.py                    one partition's log: append, read, roll; its ends and its stable part
    segment_list.py           its segments, in order
    log_segment.py            one .log file and its indexes
    log_lookup.py             which offset belongs to a timestamp
    rolling.py                when another segment begins
    retention.py              which segments have outlived their time, size or log start
    log_truncation.py         cutting off its end
    leader_epochs.py          where each leader's records began
    flush_plan.py             what must be synced so that records survive a power cut
    log_loader.py             opening its directory, after a clean stop or a crash
    segment_recovery.py       a segment after an unclean stop
    swap_recovery.py          a compaction that a crash interrupted

Its files:

    paths.py                  their names
    batch_scan.py             walking over the batches of a .log file
    mapped_entries.py         arrays of entries, memory-mapped: what the next two consist of
    offset_index.py           .index: from an offset to a position
    time_index.py             .timeindex: from a timestamp to an offset
    transaction_index.py      .txnindex: aborted transactions
    producer_snapshot.py      .snapshot: producers as they were at an offset
    partition_metadata.py     partition.metadata: whose log it is
    open_file.py              a file that stays open while somebody refers to it
    files.py                  every call that changes files
    deletion.py               renamed at once, removed later
    format_reference.py       takes docs/storage-format.md from these modules

What may be appended:

    append_rules.py           what a topic demands, worked out from its settings
    batch_validation.py       is a record set acceptable, and what is written of it
    record_checks.py          the records inside a batch, one by one
    offset_assignment.py      offsets and leader epoch for what is appended
    append_errors.py          why a record set was refused
    producer_append.py        may this producer append this batch
    producer_state.py         sequences, epochs and open transactions of all producers
    producer_recall.py        a producer's last batches, remembered across a restart
    verification_guards.py    producers being looked up at their coordinator

Compaction:

    cleaner.py                for every key the last record stays
    cleaner_schedule.py       which log is next, and up to where
    cleaner_states.py         may a log be compacted now
    cleaner_task.py           what compaction is given and what it returns
    cleaner_map.py            the last offset of every key
    cleaner_groups.py         which segments become one
    cleaner_records.py        records as places and keys
    cleaner_retention.py      which batches and records stay
    cleaner_transactions.py   aborted transactions and outlived markers
    cleaner_output.py         the segment that is written
    cleaner_swap.py           putting it in the place of the old ones

All logs of a broker:

    log_manager.py            opened, made, found, deleted, moved, closed
    log_registry.py           which logs are there, and where
    hosted_log.py             a log and the log directory it is in
    log_directories.py        all log directories
    log_directory.py          one of them: whose it is, whether it works
    log_dir_loader.py         opening every log of every directory
    log_dir_lock.py           .lock: one process at a time
    log_dir_move.py           moving a log to another directory
    log_closing.py            closing all, so that nothing need be recovered
    log_upkeep.py             syncing, retention, compaction, forgetting
    doomed_logs.py            logs out of use that still have their names
    removal_queue.py          what waits to be removed
    disk_work.py              work that sleeps in the kernel, in three parts
    observer.py               what the logs report unasked
    meta_properties.py        meta.properties: whose directory it is
    clean_shutdown.py         .kafka_cleanshutdown: was everything closed
    checkpoint.py             the text format of checkpoint files
    offset_checkpoints.py     the four that hold an offset for each partition
    directory_checkpoints.py  those of one directory: what they say and should say
    checkpoint_work.py        writing them

Settings:

    settings.py               a topic's
    topic_table.py            those of every topic
    log_settings.py           the server's, for logs
    cleaner_settings.py       the server's, for compaction
    setting_rules.py          what a few of them may be

Looking at files from outside:

    dump.py                   prints what is in them, and finds damage
    dump_segments.py          batches and records
    dump_internal.py          records that brokers write for themselves
    dump_indexes.py           indexes, and whether they can be true
    dump_entries.py           their entries
    dump_verify.py            do they say the truth about the .log file
    dump_checkpoints.py       snapshots, checkpoints, who it belongs to
    dump_files.py             reading what nothing is certain of
    dump_facts.py             what a dump consists of
    dump_text.py              a dump as lines to read
"""
