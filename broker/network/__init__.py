"""Network layer: listeners, connections, request framing, and clients of other brokers.

Kafka: kafka.network (SocketServer, Acceptor, Processor, RequestChannel, ConnectionQuotas),
Selector, KafkaChannel, and on the client side InterBrokerSendThread and ControllerChannelManager's
channels.

socket_server.py         all listeners of the broker: bind, accept, apply settings, stop
endpoint.py              listener endpoints as the settings write them
listener.py              bound server sockets, and the advertised endpoints
acceptor.py              accepts connections within the quotas and assigns them to processors
connection_quotas.py     limits on connections: in total, per address, per second
local_connections.py     connections of this broker to itself, which bypass the quotas
processor.py             owns connections; closes idle and dead ones
processor_thread.py      a processor with its own thread and event loop
connection.py            one connection: reads requests, sends responses in order
connection_services.py   dependencies that the connections of a processor share
socket_watcher.py        read and write interest of a socket in the event loop
receive_buffers.py       buffers into which requests are received
send_buffer.py           responses that are not sent yet
transport.py             the byte stream below a connection; TLS will be added here
request_accounting.py    memory and progress accounting of one request
memory_pool.py           limits on requests in progress and on their bytes in memory
request_channel.py       queue of requests and responses between threads
purgatory.py             requests whose response is not complete yet
failure_log.py           rate-limited warnings about protocol errors
broker_client.py         sends requests to another broker
client_connection.py     the connection of such a client
broker_clients.py        one client per broker
outgoing_connections.py  counters of the connections to other brokers
"""
