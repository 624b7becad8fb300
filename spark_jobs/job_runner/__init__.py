"""What all Spark jobs share: arguments, Spark session, and output of the results.

job.py          a job, from its arguments to its exit status
flags.py        flags that select records, of ``odradek scan`` and of every job
selection.py    selection of whole partitions; checks that the named topics and ids exist
durations.py    durations on the command line, and the length of time buckets
session.py      the Spark session
result.py       the result of a job: tables and their charts
cell_format.py  cells as JSON, as CSV and for display
outputs.py      output of tables as text, JSON, CSV, Parquet or HTML
html_page.py    a self-contained HTML page with charts, light and dark
charts.py       line and bar charts as SVG
scales.py       scales and ticks of the axes of a chart
"""
