"""Log compaction: the cleaner keeps the last record of every key.

Kafka: LogCleaner with its Cleaner and CleanerThread, LogCleanerManager, SkimpyOffsetMap, Throttler.

cleaner.py                       Cleaner: builds the offset map, then rewrites sealed segments
log_cleaner_manager.py           chooses the next log to compact and its offset range
log_cleaning_state.py            cleaning state of each log: idle, running, stopping, paused
task.py                          input and output of one compaction, sent to the worker and back
offset_map.py                    the last offset of every key
segment_groups.py                groups small neighbouring segments into one output segment
batch_records.py                 parses and rewrites the records of a batch without their values
record_filter.py                 decides which batches and records are retained
cleaned_transaction_metadata.py  finds aborted transactions and markers without data
cleaned_segment.py               writes the ``.cleaned`` output segment
segment_swap.py                  replaces the old segments by the cleaned ones
throttler.py                     limits the I/O rate and checks for an abort
settings.py                      the ``log.cleaner.*`` settings
"""
