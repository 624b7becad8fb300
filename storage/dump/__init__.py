"""The dump tool: prints the files of a log and reports damage.  Kafka: DumpLogSegments.

It only reads.  It may import the storage engine's file formats, and protocol.

__main__.py          entry point of ``python -m odradek.storage.dump``
command.py           the command line: finds the files, prints their dump
segments.py          batches and records of .log files
internal_records.py  decodes control records and records of internal topics
indexes.py           index files, checked by themselves
index_entries.py     the entries of the index files
index_verifier.py    checks index entries against the .log file
checkpoints.py       producer snapshots, checkpoint files, meta.properties
file_reader.py       read-only access to files that may be damaged
items.py             the items of a dump
text.py              formats items as lines of text
"""
