"""Where a cluster's metadata is kept: a tree of small nodes, as ZooKeeper has it.

base.py       what a store is: operations, results, watches, sessions
paths.py      every path in the tree, built and parsed
payloads/     the JSON in its nodes
legal_paths.py  which paths a node may have
tree.py       the tree in memory: nodes, versions, ephemerals, sequences, sessions
watches.py    who is to be called for which change to it
embedded.py   a store for one broker: the tree, written through to a journal
journal.py    that journal: a file of SQLite's
zookeeper.py  a store for many: ZooKeeper, through kazoo
  zookeeper_session.py   what is sent to it, in which order, and again
  zookeeper_requests.py  operations and answers in its terms
  zookeeper_watches.py   who is to be called for what, once, and after a connection was lost
  zookeeper_client.py    kazoo, whose thread ends there
  zookeeper_handler.py   how kazoo waits and connects
  zookeeper_access.py    access lists, SASL, TLS
"""
