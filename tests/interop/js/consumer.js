// Reads assigned partitions with the parts that kafkajs's consumer is made of: its cluster, which
// knows leaders and connections, and its Fetch request.  The consumer itself must have a group.
'use strict'

const { Kafka } = require('kafkajs')
const Cluster = require('kafkajs/src/cluster')
const LoggerConsole = require('kafkajs/src/loggers/console')
const socketFactory = require('kafkajs/src/network/socketFactory')
const { createLogger } = require('kafkajs/src/loggers')
const { createErrorFromCode } = require('kafkajs/src/protocol/error')
const { TIMEOUT_MS, settings } = require('./settings')

const WAIT_MS = 200
const MAX_BYTES = 50 << 20
const READ_UNCOMMITTED = 0

async function openConsumer(address, fetchBytesMax) {
  const chosen = settings(address)
  const cluster = new Cluster({
    ...chosen,
    logger: createLogger({ level: chosen.logLevel, logCreator: LoggerConsole }),
    socketFactory: socketFactory(),
    connectionTimeout: 1000,
    enforceRequestTimeout: true,
    metadataMaxAge: 300000,
    allowAutoTopicCreation: true,
  })
  const admin = new Kafka(chosen).admin()
  await Promise.all([cluster.connect(), admin.connect()])
  return {
    read: asked => read(cluster, { ...asked, fetchBytesMax }),
    offset_at: asked => offsetAt(admin, asked),
    close: () => Promise.all([cluster.disconnect(), admin.disconnect()]).then(() => null),
  }
}

async function read(cluster, { topic, starts, count, fetchBytesMax }) {
  const next = new Map(Object.entries(starts).map(([key, offset]) => [Number(key), offset]))
  const found = []
  const deadline = Date.now() + TIMEOUT_MS
  await cluster.addTargetTopic(topic)
  while (found.length < count && Date.now() < deadline) {
    try {
      const told = await fetched(cluster, topic, next, fetchBytesMax)
      for (const each of told) keep(each, next, found)
    } catch (error) {
      if (!error.retriable) throw error
      await cluster.refreshMetadata()
    }
  }
  return found.slice(0, count)
}

async function fetched(cluster, topic, next, fetchBytesMax) {
  const partitionsTold = []
  const leaders = cluster.findLeaderForPartitions(topic, [...next.keys()])
  for (const [nodeId, led] of Object.entries(leaders)) {
    const broker = await cluster.findBroker({ nodeId })
    const partitions = led.map(partition => ({
      partition,
      fetchOffset: String(next.get(partition)),
      maxBytes: fetchBytesMax,
    }))
    const told = await broker.fetch({
      maxWaitTime: WAIT_MS,
      minBytes: 1,
      maxBytes: MAX_BYTES,
      isolationLevel: READ_UNCOMMITTED,
      topics: [{ topic, partitions }],
    })
    partitionsTold.push(...told.responses.flatMap(response => response.partitions))
  }
  return partitionsTold
}

// A batch may begin before the offset that was asked for.
function keep({ partition, errorCode, messages }, next, found) {
  if (errorCode) throw createErrorFromCode(errorCode)
  for (const each of messages) {
    if (Number(each.offset) < next.get(partition)) continue
    found.push(seen(partition, each))
    next.set(partition, Number(each.offset) + 1)
  }
}

const seen = (partition, message) => ({
  partition,
  offset: Number(message.offset),
  key: text(message.key),
  value: text(message.value),
  headers: Object.entries(message.headers).map(([name, value]) => ({ name, value: text(value) })),
  timestamp_ms: Number(message.timestamp),
})

const text = bytes => (bytes == null ? null : bytes.toString('base64'))

// Where no record is that late, the library tells the end.
async function offsetAt(admin, { topic, partition, timestamp_ms }) {
  const found = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp_ms)
  const ends = await admin.fetchTopicOffsets(topic)
  const offsetIn = listed => Number(listed.find(each => each.partition === partition).offset)
  return offsetIn(found) === offsetIn(ends) ? null : offsetIn(found)
}

module.exports = { openConsumer, seen }
