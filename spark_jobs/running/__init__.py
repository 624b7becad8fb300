"""Former name of job_runner: jobs that import ``odradek.spark_jobs.running`` continue to work.

    job.py          Job, Call and their former method names
    result.py       Chart, Result, Shape, Table
    flags.py        flags that select records
    selection.py    selection of partitions
    durations.py    durations and time buckets

New jobs import ``odradek.spark_jobs.job_runner``.
"""
