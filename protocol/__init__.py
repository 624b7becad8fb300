"""Kafka's wire protocol and record formats, without I/O.

It corresponds to Kafka's ``org.apache.kafka.common.protocol``, ``.message``, ``.requests`` and
``.record`` packages.

    schema.py          the declaration language for messages
    field.py           the parts of a declaration: versions, wire types, fields
    api/               one file per API: its request and its response, all versions
    internal/          records of the internal topics and blobs inside other messages
    codec.py           encode and decode: the two entry points
    compiler.py        compiles a declaration and a version into two Python functions, on first use
    decoder_source.py  generates the source of a decode function
    encoder_source.py  generates the source of an encode function
    wire.py            functions that the generated code calls for the uncommon cases
    encode_faults.py   finds the field that could not be encoded
    header.py          request and response headers; whole frames
    api_keys.py        ApiKey: number and name
    registry.py        ApiKey -> request class, response class, versions
    reference.py       generates docs/protocol.md from the registry
    error_codes.py     ErrorCode: code, retriable, text
    errors.py          exceptions, most of which carry a code
    types.py           Uuid, TopicPartition: small value types of the protocol
    buffers.py         the values that are accepted as bytes
    file_region.py     bytes that are sent from their file without being read
    varint.py          variable-length integers
    records/           record batches of every magic, and their compression

Everything here is a function of its arguments: no socket, no thread, no clock.
"""
