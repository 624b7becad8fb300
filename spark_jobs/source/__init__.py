"""The Spark data source ``odradek``: log directories as tables and streams.

    register.py           registers the source in a session
    data_source.py        the source class: the schema and the readers
    source_options.py     the scanner's options, and those that only Spark has
    batch_reader.py       a table: distributes the splits among tasks
    stream_reader.py      a stream: tails the segments
    stream_offsets.py     the offsets of a stream, as in its checkpoint
    partition_tracker.py  how far each partition is readable now
    row_reader.py         in a worker: the rows of splits, with the schema that Spark expects
    damage_report.py      damaged ranges as rows
    worker_packages.py    the packages that a worker's Python needs, and the error if one is missing
    java.py               finds Java
    py_files.py           the zip that ships this package to the workers
    error_messages.py     extracts the relevant line from a Spark error

The package needs PySpark (extra ``spark``).  A worker imports only the modules that it runs, so it
can report a missing package.
"""
