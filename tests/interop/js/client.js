// Speaks for kafkajs, in lines of JSON, as ../go/main.go does for the clients in Go.
'use strict'

const readline = require('readline')
const { openAdmin } = require('./admin')
const { openConsumer } = require('./consumer')
const { openMember } = require('./member')
const { openProducer } = require('./producer')
const { loadCodecs } = require('./codecs')

const OPENERS = {
  open_producer: asked => openProducer(asked.address, asked.options),
  open_consumer: asked => openConsumer(asked.address, asked.fetch_bytes_max),
  open_member: asked => openMember(asked.address, asked.group, asked.topic),
  open_admin: asked => openAdmin(asked.address),
}

const opened = new Map()
let last = 0

async function answer(asked) {
  if (asked.command in OPENERS) {
    const made = await OPENERS[asked.command](asked)
    opened.set(++last, made)
    return last
  }
  const found = opened.get(asked.handle)
  if (asked.command === 'close') opened.delete(asked.handle)
  return await found[asked.command](asked)
}

// Kafka's name for what a broker refused, or none where the library itself did.
function nameOf(error) {
  if (error == null) return ''
  const within = [...(error.errors || []), ...(error.partitions || []).map(each => each.error)]
  return error.type || nameOf(within[0] || error.cause || error.originalError)
}

async function converse() {
  await loadCodecs()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let told
    try {
      told = { answer: (await answer(JSON.parse(line))) ?? null }
    } catch (error) {
      told = { refused: nameOf(error), text: String(error.stack) }
    }
    process.stdout.write(`${JSON.stringify(told)}\n`)
  }
}

converse().then(() => process.exit(0))
