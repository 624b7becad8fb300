"""The metadata store of a cluster: a tree of small znodes in ZooKeeper's model.

All cluster metadata (brokers, topics, partition states, configurations, ACLs) is in this tree, with
Kafka's paths and Kafka's JSON.  Kafka: KafkaZkClient, ZooKeeperClient, ZkData.

base.py             the interface: operations, results, watches, sessions, errors
paths.py            builds and parses every path of the tree
payloads/           the JSON values of the znodes
path_validation.py  checks that a path is valid
data_tree.py        the tree in memory: znodes, versions, ephemerals, sequences, sessions
watch_manager.py    the watches on the tree in memory
embedded.py         the store of a single broker: the tree in memory, written through to a journal
journal.py          the SQLite file of the embedded store
zookeeper.py        the store of a cluster: ZooKeeper, accessed through kazoo
  zookeeper_session.py   sends requests in order and resends them after a reconnect
  zookeeper_requests.py  translates operations to ZooKeeper requests, and responses to results
  zookeeper_watches.py   one-shot watches, and which of them fired while disconnected
  zookeeper_client.py    the kazoo client and its thread
  zookeeper_handler.py   kazoo's I/O: polling, connecting, dispatching callbacks
  zookeeper_security.py  ACLs, SASL, TLS
"""
