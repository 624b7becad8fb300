package main

import (
	"errors"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type saramas struct{}

type saramaProducer struct{ client sarama.SyncProducer }

type saramaConsumer struct {
	client   sarama.Client
	consumer sarama.Consumer
}

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

var saramaAcks = map[string]sarama.RequiredAcks{
	"0":   sarama.NoResponse,
	"1":   sarama.WaitForLocal,
	"all": sarama.WaitForAll,
}

// settings are those of the library, but that it is patient: a broker may start meanwhile.
func settings() *sarama.Config {
	chosen := sarama.NewConfig()
	chosen.ClientID = "interop"
	chosen.Version = sarama.MaxVersion
	chosen.Metadata.Retry.Max = 40
	chosen.Producer.Retry.Max = 40
	chosen.Consumer.Retry.Backoff = patience
	chosen.Consumer.MaxWaitTime = patience
	return chosen
}

func (saramas) producer(address string, chosen options) (producer, error) {
	set := settings()
	set.Producer.Partitioner = sarama.NewManualPartitioner
	set.Producer.RequiredAcks = saramaAcks[chosen.Acks]
	set.Producer.Compression = saramaCodecs[chosen.Codec]
	set.Producer.MaxMessageBytes = chosen.RequestBytesMax
	set.Producer.Flush.Frequency = time.Duration(chosen.LingerMs) * time.Millisecond
	set.Producer.Return.Successes = true
	if chosen.IsIdempotent {
		set.Producer.Idempotent = true
		set.Net.MaxOpenRequests = 1
	}
	client, err := sarama.NewSyncProducer([]string{address}, set)
	return &saramaProducer{client}, err
}

func (p *saramaProducer) send(topic string, records []record) ([]int64, error) {
	sent := make([]*sarama.ProducerMessage, 0, len(records))
	for _, each := range records {
		one := &sarama.ProducerMessage{Topic: topic, Partition: each.Partition}
		if each.Key != nil {
			one.Key = sarama.ByteEncoder(each.Key)
		}
		if each.Value != nil {
			one.Value = sarama.ByteEncoder(each.Value)
		}
		if each.TimestampMs != nil {
			one.Timestamp = time.UnixMilli(*each.TimestampMs)
		}
		for _, named := range each.Headers {
			name := []byte(named.Name)
			one.Headers = append(one.Headers, sarama.RecordHeader{Key: name, Value: named.Value})
		}
		sent = append(sent, one)
	}
	if err := p.client.SendMessages(sent); err != nil {
		var failed sarama.ProducerErrors
		if errors.As(err, &failed) {
			return nil, failed[0].Err
		}
		return nil, err
	}
	offsets := make([]int64, 0, len(sent))
	for _, one := range sent {
		offsets = append(offsets, one.Offset)
	}
	return offsets, nil
}

func (p *saramaProducer) close() error { return p.client.Close() }

func (saramas) consumer(address string, fetchBytesMax int) (consumer, error) {
	set := settings()
	set.Consumer.Fetch.Default = int32(fetchBytesMax)
	client, err := sarama.NewClient([]string{address}, set)
	if err != nil {
		return nil, err
	}
	reading, err := sarama.NewConsumerFromClient(client)
	return &saramaConsumer{client, reading}, err
}

func (c *saramaConsumer) read(topic string, starts map[int32]int64, count int) ([]record, error) {
	arrived, done := make(chan record), make(chan struct{})
	opened, passing := []sarama.PartitionConsumer{}, sync.WaitGroup{}
	defer func() {
		close(done)
		for _, one := range opened {
			one.AsyncClose()
		}
		passing.Wait()
	}()
	for partition, offset := range starts {
		one, err := c.consumer.ConsumePartition(topic, partition, offset)
		if err != nil {
			return nil, err
		}
		opened = append(opened, one)
		passing.Go(func() { passOn(one, arrived, done) })
	}
	found, late := make([]record, 0, count), time.After(timeout)
	for len(found) < count {
		select {
		case one := <-arrived:
			found = append(found, one)
		case <-late:
			return found, nil
		}
	}
	return found, nil
}

func passOn(from sarama.PartitionConsumer, arrived chan<- record, done <-chan struct{}) {
	for one := range from.Messages() {
		select {
		case arrived <- readBySarama(one):
		case <-done:
		}
	}
}

func readBySarama(one *sarama.ConsumerMessage) record {
	timestamp := one.Timestamp.UnixMilli()
	seen := record{one.Partition, one.Offset, one.Key, one.Value, []header{}, &timestamp}
	for _, named := range one.Headers {
		seen.Headers = append(seen.Headers, header{string(named.Key), named.Value})
	}
	return seen
}

func (c *saramaConsumer) offsetAt(topic string, partition int32, timestampMs int64) (*int64, error) {
	found, err := c.client.GetOffset(topic, partition, timestampMs)
	if err != nil || found < 0 {
		return nil, err
	}
	return &found, nil
}

func (c *saramaConsumer) close() error {
	return errors.Join(c.consumer.Close(), c.client.Close())
}
