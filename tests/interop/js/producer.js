'use strict'

const { Kafka, Partitioners } = require('kafkajs')
const { settings } = require('./settings')
const { TYPES } = require('./codecs')

const ACKS = { 0: 0, 1: 1, all: -1 }

async function openProducer(address, options) {
  const producer = new Kafka(settings(address)).producer({
    createPartitioner: Partitioners.DefaultPartitioner,
    idempotent: options.is_idempotent,
  })
  await producer.connect()
  return {
    send: async ({ topic, records }) => {
      const written = { topic, messages: records.map(message) }
      const acks = ACKS[options.acks]
      return offsets(records, await producer.send({ ...written, acks, compression: TYPES[options.codec] }))
    },
    close: () => producer.disconnect(),
  }
}

const message = record => ({
  partition: record.partition,
  key: bytes(record.key),
  value: bytes(record.value),
  headers: Object.fromEntries(record.headers.map(each => [each.name, bytes(each.value)])),
  timestamp: record.timestamp_ms == null ? undefined : String(record.timestamp_ms),
})

const bytes = text => (text == null ? null : Buffer.from(text, 'base64'))

// It tells the first offset of each partition; what was sent there in one call follows it.
function offsets(records, told) {
  const next = new Map(told.map(each => [each.partition, Number(each.baseOffset)]))
  return records.map(({ partition }) => {
    const offset = next.get(partition)
    next.set(partition, offset + 1)
    return offset
  })
}

module.exports = { openProducer }
