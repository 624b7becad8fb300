// The codecs that kafkajs leaves to its users.  LZ4 must be frames of independent blocks: no others
// can be read by Kafka and its Java clients, and not every package writes such.
'use strict'

const { CompressionCodecs, CompressionTypes } = require('kafkajs')
const lz4 = require('lz4-napi')
const snappy = require('kafkajs-snappy')
const zstd = require('@bokuweb/zstd-wasm')

const TYPES = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

async function loadCodecs() {
  await zstd.init()
  CompressionCodecs[CompressionTypes.Snappy] = snappy
  CompressionCodecs[CompressionTypes.LZ4] = () => ofFunctions(lz4.compressFrameSync, lz4.decompressFrameSync)
  CompressionCodecs[CompressionTypes.ZSTD] = () => ofFunctions(zstd.compress, zstd.decompress)
}

const ofFunctions = (compress, decompress) => ({
  compress: async encoder => Buffer.from(compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(decompress(buffer)),
})

module.exports = { TYPES, loadCodecs }
