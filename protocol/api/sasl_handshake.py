"""SaslHandshake (key 17): choose the SASL mechanism of a connection.

    v0  introduced by KIP-43: SASL tokens follow without a header, each after its int32 length
    v1  SASL tokens follow in SaslAuthenticate requests (KIP-152)

There is no flexible version, because old clients would not negotiate it correctly.
"""

from odradek.protocol.schema import Message, array, int16, string


class SaslHandshakeRequest(Message, key=17, versions="0-1"):
    mechanism: str = string()


class SaslHandshakeResponse(Message, key=17, versions="0-1"):
    error_code: int = int16()
    mechanisms: list[str] = array(string)
