"""Sockets: who may connect, which bytes are a request, and how an answer goes out.

socket_server.py       all listeners together: open, accept, stop
endpoint.py            listeners as they are written in settings
listener.py            listening sockets, and what others are told of them
acceptor.py            accepts, within the limits, and hands to processors
connection_limits.py   how many connections, from where, how fast
own_connections.py     the broker's own controller, which no limit keeps out
processor.py           owns connections; ends idle ones
processor_thread.py    a processor with a thread of its own
connection.py          frames in, answers out, in order
surroundings.py        what the connections of a processor share
watch.py               what the loop watches of a socket
receive_buffers.py     where frames are received
outbox.py              what has not gone out yet
transport.py           the stream of bytes below; where TLS will go
request_in_hand.py     what of one request is counted, and for how long
request_memory.py      how many requests are in progress, and bytes of them in memory
request_channel.py     requests and answers between threads
pending_answers.py     handlers that must wait
failure_log.py         a line for whoever breaks the protocol, but not too many
client.py              requests to other brokers
client_connection.py   the connection that they go by
broker_clients.py      one client for each of them
outgoing.py            the connections of these clients, counted
"""
