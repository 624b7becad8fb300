package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// moment is how long one poll waits.
const moment = 200 * time.Millisecond

// franzMember commits when it is told to, and begins at the beginning.
type franzMember struct {
	client   *kgo.Client
	lock     sync.Mutex
	assigned []int32
}

func (franz) member(address, group, topic string) (member, error) {
	made := &franzMember{}
	lose := func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { made.lose(lost[topic]) }
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(moment),
		kgo.MetadataMinAge(patience),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, added map[string][]int32) {
			made.lock.Lock()
			defer made.lock.Unlock()
			made.assigned = append(made.assigned, added[topic]...)
		}),
		kgo.OnPartitionsRevoked(lose),
		kgo.OnPartitionsLost(lose),
	)
	made.client = client
	return made, err
}

func (m *franzMember) lose(lost []int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.assigned = slices.DeleteFunc(m.assigned, func(each int32) bool {
		return slices.Contains(lost, each)
	})
}

func (m *franzMember) poll() (polled, error) {
	until, cancel := context.WithTimeout(context.Background(), moment)
	defer cancel()
	fetched := m.client.PollFetches(until)
	told := polled{[]record{}, []int32{}}
	for _, failed := range fetched.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			return told, failed.Err
		}
	}
	fetched.EachRecord(func(one *kgo.Record) { told.Records = append(told.Records, readByFranz(one)) })
	m.lock.Lock()
	defer m.lock.Unlock()
	told.Assigned = append(told.Assigned, m.assigned...)
	return told, nil
}

func (m *franzMember) commit() error {
	until, cancel := within()
	defer cancel()
	return m.client.CommitUncommittedOffsets(until)
}

func (m *franzMember) close() error {
	m.client.Close()
	return nil
}
