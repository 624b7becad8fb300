"""The Spark data source ``odradek``: log directories as tables and streams.

    register.py       make the source known to a session
    data_source.py    what Spark asks first: the schema, and who reads
    request.py        what is wanted: the scanner's options and those that only Spark has
    batch_reader.py   a table: the splits, shared out
    stream_reader.py  a stream: the segments are tailed
    stream_offsets.py where a stream is, as its checkpoint has it
    tails.py          how far each partition can be read by now
    rows.py           in a worker: the rows of splits, as Spark wants to have them
    damage_report.py  what is damaged, as rows
    workers.py        what a worker's Python must have, and who lacks it
    java.py           where Java is
    py_files.py       the zip that brings all this to the workers
    failures.py       the line in a failure of Spark's that says what is wrong

Needs PySpark (extra ``spark``).  A worker imports no more of it than it runs, so that it can say
what it lacks.
"""
