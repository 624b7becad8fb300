"""One partition's log on disk, and the log manager over all of them.

Synchronous, one writer per log; knows no event loop, no clock, no metric, no replica.

A log:

    log.py                 one partition's log: append, read, roll; its ends and its stable part
    segment_list.py        its segments, in order
    open_segments.py       which of them are open
    log_segment.py         one .log file and its indexes
    largest_timestamp.py   of a segment, where its time index does not tell it
    log_lookup.py          which offset belongs to a timestamp
    rolling.py             when another segment begins
    retention.py           which segments have outlived their time, size or log start
    log_truncation.py      cutting off its end
    leader_epochs.py       where each leader's records began
    flush_plan.py          what must be synced so that records survive a power cut
    log_loader.py          opening its directory, after a clean stop or a crash
    index_soundness.py     can a segment's indexes be believed
    segment_recovery.py    a segment after an unclean stop
    segment_split.py       a segment that reaches too far for its indexes
    swap_recovery.py       a compaction that a crash interrupted
    abort_evidence.py      do the batches bear out what .txnindex says
    admission/             what may be appended, and how it is written
    producers/             sequences, epochs and open transactions of its producers

Its files:

    paths.py               their names
    batch_scan.py          walking over the batches of a .log file
    mapped_entries.py      arrays of entries, memory-mapped: what the next two consist of
    offset_index.py        .index: from an offset to a position
    time_index.py          .timeindex: from a timestamp to an offset
    transaction_index.py   .txnindex: aborted transactions
    partition_metadata.py  partition.metadata: whose log it is
    open_file.py           a file that stays open while somebody refers to it
    files.py               every call that changes files
    deletion.py            renamed at once, removed later

All logs of a broker:

    manager/               opened, made, found, deleted, moved, closed
    cleaner/               compacted
    meta_properties.py     meta.properties: whose directory it is
    clean_shutdown.py      .kafka_cleanshutdown: was everything closed
    checkpoint.py          the text format of checkpoint files
    offset_checkpoints.py  the four that hold an offset for each partition

Settings:

    settings.py            a topic's
    topic_table.py         those of every topic
    log_settings.py        the server's, for logs
    setting_rules.py       what a few of them may be

From outside:

    dump/                  shows what is in the files, and finds damage
    format_reference.py    takes docs/storage-format.md from the modules
"""
