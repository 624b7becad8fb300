package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// franzSession reads what is committed, and commits what it made of that together with how far it read.
type franzSession struct {
	session *kgo.GroupTransactSession
}

func (franz) session(address, group, topic, transactionalID string) (session, error) {
	made, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(address),
		kgo.TransactionalID(transactionalID),
		kgo.TransactionTimeout(timeout),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(moment),
		kgo.RequireStableFetchOffsets(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(moment),
		kgo.MetadataMinAge(patience),
	)
	return &franzSession{made}, err
}

// copy is one transaction: what came in a moment, to the partitions of the target that have the same numbers.
func (s *franzSession) copy(target string, isCommitted bool) (copied, error) {
	until, cancel := context.WithTimeout(context.Background(), moment)
	defer cancel()
	fetched := s.session.PollFetches(until)
	told := copied{Records: []record{}}
	for _, failed := range fetched.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			return told, failed.Err
		}
	}
	if fetched.NumRecords() == 0 {
		return told, nil
	}
	if err := s.session.Begin(); err != nil {
		return told, err
	}
	within, done := within()
	defer done()
	promise := kgo.AbortingFirstErrPromise(s.session.Client())
	fetched.EachRecord(func(one *kgo.Record) {
		told.Records = append(told.Records, readByFranz(one))
		made := &kgo.Record{Topic: target, Partition: one.Partition, Key: one.Key, Value: one.Value}
		s.session.Produce(within, made, promise.Promise())
	})
	hasAll := promise.Err() == nil
	committed, err := s.session.End(within, kgo.TransactionEndTry(hasAll && isCommitted))
	told.Committed = committed
	return told, err
}

func (s *franzSession) close() error {
	s.session.Close()
	return nil
}
