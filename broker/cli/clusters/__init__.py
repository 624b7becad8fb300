"""``odradek cluster``: a cluster on this machine to develop with, and how any cluster is.

command.py     its verbs
running.py     start: from the first process until the last one has ended
processes.py   a ZooKeeper and brokers, each in a process of its own
view.py        what is shown of them meanwhile
status.py      status: brokers, leaders, and what is amiss
health.py      what is amiss with partitions
"""
