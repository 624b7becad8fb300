package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// franz is franz-go: package kgo to produce and consume, package kadm to administer.
type franz struct{}

type franzProducer struct{ client *kgo.Client }

type franzConsumer struct{ client *kgo.Client }

var franzCodecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var franzAcks = map[string]kgo.Acks{
	"0":   kgo.NoAck(),
	"1":   kgo.LeaderAck(),
	"all": kgo.AllISRAcks(),
}

func (franz) producer(address string, chosen options) (producer, error) {
	settings := []kgo.Opt{
		kgo.SeedBrokers(address),
		kgo.AllowAutoTopicCreation(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(franzAcks[chosen.Acks]),
		kgo.ProducerBatchCompression(franzCodecs[chosen.Codec]),
		kgo.ProducerBatchMaxBytes(int32(chosen.RequestBytesMax)),
		kgo.ProducerLinger(time.Duration(chosen.LingerMs) * time.Millisecond),
		kgo.MetadataMinAge(patience),
	}
	if !chosen.IsIdempotent {
		settings = append(settings, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(settings...)
	return &franzProducer{client}, err
}

func (p *franzProducer) send(topic string, records []record) ([]int64, error) {
	sent := make([]*kgo.Record, 0, len(records))
	for _, each := range records {
		one := &kgo.Record{Topic: topic, Partition: each.Partition, Key: each.Key, Value: each.Value}
		if each.TimestampMs != nil {
			one.Timestamp = time.UnixMilli(*each.TimestampMs)
		}
		for _, named := range each.Headers {
			one.Headers = append(one.Headers, kgo.RecordHeader{Key: named.Name, Value: named.Value})
		}
		sent = append(sent, one)
	}
	until, cancel := within()
	defer cancel()
	if err := p.client.ProduceSync(until, sent...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, 0, len(sent))
	for _, one := range sent {
		offsets = append(offsets, one.Offset)
	}
	return offsets, nil
}

func (p *franzProducer) close() error {
	p.client.Close()
	return nil
}

func (franz) consumer(address string, fetchBytesMax int) (consumer, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxPartitionBytes(int32(fetchBytesMax)),
		kgo.MetadataMinAge(patience),
	)
	return &franzConsumer{client}, err
}

func (c *franzConsumer) read(topic string, starts map[int32]int64, count int) ([]record, error) {
	assigned, partitions := map[int32]kgo.Offset{}, []int32{}
	for partition, offset := range starts {
		assigned[partition] = kgo.NewOffset().At(offset)
		partitions = append(partitions, partition)
	}
	c.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: assigned})
	defer c.client.RemoveConsumePartitions(map[string][]int32{topic: partitions})
	until, cancel := within()
	defer cancel()
	found := make([]record, 0, count)
	for len(found) < count {
		fetched := c.client.PollRecords(until, count-len(found))
		if err := fetched.Err0(); errors.Is(err, context.DeadlineExceeded) {
			break
		}
		for _, failed := range fetched.Errors() {
			return nil, failed.Err
		}
		fetched.EachRecord(func(one *kgo.Record) { found = append(found, readByFranz(one)) })
	}
	return found, nil
}

func readByFranz(one *kgo.Record) record {
	timestamp := one.Timestamp.UnixMilli()
	seen := record{one.Partition, one.Offset, one.Key, one.Value, []header{}, &timestamp}
	for _, named := range one.Headers {
		seen.Headers = append(seen.Headers, header{named.Key, named.Value})
	}
	return seen
}

func (c *franzConsumer) offsetAt(topic string, partition int32, timestampMs int64) (*int64, error) {
	until, cancel := within()
	defer cancel()
	listed, err := kadm.NewClient(c.client).ListOffsetsAfterMilli(until, timestampMs, topic)
	if err = errors.Join(err, listed.Error()); err != nil {
		return nil, err
	}
	// Where no record is that late, the library tells the end, and no timestamp.
	if found, ok := listed.Lookup(topic, partition); ok && found.Timestamp >= 0 {
		return &found.Offset, nil
	}
	return nil, nil
}

func (c *franzConsumer) close() error {
	c.client.Close()
	return nil
}
