"""``odradek cluster``: run a development cluster on this machine; show the status of any cluster.

command.py         the verbs and their options
cluster_runner.py  start: runs a cluster until a signal stops it
local_cluster.py   the processes of a cluster: a ZooKeeper server and brokers
view.py            prints the states of the processes while the cluster runs
status.py          status: brokers, controller, leaders, and problems
health.py          finds the problems of partitions
"""
