"""Bytes and meaning: Kafka's wire protocol and record formats, with no I/O.

    schema.py          the language in which messages are declared
    field.py           versions, wire types, fields: what a declaration consists of
    api/               one file per API: its request and its response, all versions
    internal/          records of the internal topics and blobs inside other messages
    codec.py           encode and decode: the two entry points
    compiler.py        declaration and version -> two Python functions, on first use
    decoder_source.py  writes the source of a decode function
    encoder_source.py  writes the source of an encode function
    wire.py            what the written functions call for the uncommon cases
    diagnosis.py       names the field that could not be encoded
    header.py          request and response headers; whole frames
    api_keys.py        ApiKey: number and name
    registry.py        ApiKey -> request class, response class, versions
    reference.py       writes docs/protocol.md from the registry
    error_codes.py     ErrorCode: code, retriable, text
    errors.py          exceptions, most of which carry a code
    types.py           Uuid, TopicPartition: small values of the protocol's own
    buffers.py         what passes for bytes
    file_region.py     bytes that stay in their file
    varint.py          variable-length integers
    records/           record batches of every magic, and their compression

Everything here is a function of its arguments: no socket, no thread, no clock.
"""
