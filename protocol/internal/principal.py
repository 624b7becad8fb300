"""The principal of a forwarded request, as brokers exchange it.

It is sent as bytes in an Envelope request (KIP-590).  An int16 version, which is not part of the
message below, precedes it.

    v0  the only version, read and written

``token_authenticated``: the client used a delegation token.
"""

from odradek.protocol.schema import Message, boolean, string


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()
