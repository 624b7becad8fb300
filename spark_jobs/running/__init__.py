"""What all Spark jobs share: a job says what it reads and what tables it makes of it.

job.py          a job from its arguments to its exit status
flags.py        which records are wanted: the flags of ``odradek scan`` and of every job
selection.py    which partitions, for jobs about whole ones
durations.py    lengths of time, and how to cut one into equal parts
session.py      the Spark session, and what is missing for one
result.py       what a job has found: tables, and charts of them
cells.py        cells as text, as JSON, as a person reads them
outputs.py      results as tables, JSON, CSV, Parquet or a page
html_page.py    a page that needs nothing else: light and dark, with charts
charts.py       lines and bars as SVG
scales.py       where the ticks of an axis are, and what they say
"""
