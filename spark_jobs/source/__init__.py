"""The Spark data source ``odradek``: log directories as tables and streams.

    register.py       make the source known to a session
    data_source.py    what Spark asks first: the schema, and who reads
    request.py        what is wanted: the scanner's options and those that only Spark has
    batch_reader.py   a table: the splits, shared out
    rows.py           in a worker: the rows of splits, as Spark wants to have them
    damage_report.py  what is damaged, as rows
    workers.py        what a worker's Python must have, and who lacks it
    failures.py       the line in a failure of Spark's that says what is wrong

Needs PySpark (extra ``spark``).  A worker imports no more of it than it runs, so that it can say
what it lacks.
"""
