package main

import (
	"fmt"
	"time"
)

// timeout bounds whatever a library may go on trying; the tests wait longer.
const timeout = 30 * time.Second

// patience is how long a library waits before it asks again for what it was not told.
const patience = 100 * time.Millisecond

type question struct {
	Command       string            `json:"command"`
	Handle        int               `json:"handle"`
	Address       string            `json:"address"`
	Options       options           `json:"options"`
	FetchBytesMax int               `json:"fetch_bytes_max"`
	Topic         string            `json:"topic"`
	Records       []record          `json:"records"`
	Starts        map[int32]int64   `json:"starts"`
	Count         int               `json:"count"`
	Partition     int32             `json:"partition"`
	TimestampMs   int64             `json:"timestamp_ms"`
	Partitions    int32             `json:"partitions"`
	Configs       map[string]string `json:"configs"`
	BrokerID      int32             `json:"broker_id"`
	Before        int64             `json:"before"`
	Group         string            `json:"group"`
	Target        string            `json:"target"`
	Transactional string            `json:"transactional_id"`
	IsCommitted   bool              `json:"is_committed"`
}

type answer struct {
	Answer any `json:"answer"`
}

type refusal struct {
	Refused string `json:"refused"`
	Text    string `json:"text"`
}

type options struct {
	Acks            string `json:"acks"`
	Codec           string `json:"codec"`
	IsIdempotent    bool   `json:"is_idempotent"`
	RequestBytesMax int    `json:"request_bytes_max"`
	LingerMs        int    `json:"linger_ms"`
}

// record is one that is sent, then without an offset, or one that was read.
type record struct {
	Partition   int32    `json:"partition"`
	Offset      int64    `json:"offset"`
	Key         []byte   `json:"key"`
	Value       []byte   `json:"value"`
	Headers     []header `json:"headers"`
	TimestampMs *int64   `json:"timestamp_ms"`
}

type header struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

type described struct {
	Leader   int32   `json:"leader"`
	Replicas []int32 `json:"replicas"`
	InSync   []int32 `json:"in_sync"`
}

type cluster struct {
	ClusterID  string           `json:"cluster_id"`
	Controller int32            `json:"controller"`
	Brokers    map[int32]string `json:"brokers"`
}

type library interface {
	producer(address string, chosen options) (producer, error)
	consumer(address string, fetchBytesMax int) (consumer, error)
	admin(address string) (admin, error)
}

type producer interface {
	send(topic string, records []record) ([]int64, error)
	close() error
}

type consumer interface {
	read(topic string, starts map[int32]int64, count int) ([]record, error)
	offsetAt(topic string, partition int32, timestampMs int64) (*int64, error)
	close() error
}

// grouping is a library whose consumers are asked here as members of groups.
type grouping interface {
	member(address, group, topic string) (member, error)
}

type member interface {
	poll() (polled, error)
	commit() error
	close() error
}

// polled is what came in a moment, and which partitions the member has after it.
type polled struct {
	Records  []record `json:"records"`
	Assigned []int32  `json:"assigned"`
}

// transacting is a library whose sessions are asked here to read and write in transactions.
type transacting interface {
	session(address, group, topic, transactionalID string) (session, error)
}

type session interface {
	copy(target string, isCommitted bool) (copied, error)
	close() error
}

// copied is what one transaction has read, and whether it was committed.
type copied struct {
	Records   []record `json:"records"`
	Committed bool     `json:"committed"`
}

type admin interface {
	create(topic string, partitions int32, configs map[string]string) error
	topics() ([]string, error)
	describe(topic string) (map[int32]described, error)
	remove(topic string) error
	grow(topic string, partitions int32) error
	configs(topic string) (map[string]*string, error)
	brokerConfigs(brokerID int32) (map[string]*string, error)
	alter(topic string, configs map[string]string) error
	alterSome(topic string, configs map[string]string) error
	deleteRecords(topic string, before int64) (int64, error)
	firstAndNextOffset(topic string) ([2]int64, error)
	logDirs(topic string) (map[string]map[int32]int64, error)
	elect(topic string) (string, error)
	cluster() (cluster, error)
	close() error
}

// desk keeps what was opened, by the handle that the tests know it by.
type desk struct {
	library library
	open    map[int]any
	last    int
}

func (d *desk) answer(asked *question) (any, error) {
	switch asked.Command {
	case "open_producer":
		made, err := d.library.producer(asked.Address, asked.Options)
		return d.kept(made, err)
	case "open_consumer":
		made, err := d.library.consumer(asked.Address, asked.FetchBytesMax)
		return d.kept(made, err)
	case "open_member":
		grouped, ok := d.library.(grouping)
		if !ok {
			return nil, fmt.Errorf("no groups are asked of this library")
		}
		made, err := grouped.member(asked.Address, asked.Group, asked.Topic)
		return d.kept(made, err)
	case "open_session":
		able, ok := d.library.(transacting)
		if !ok {
			return nil, fmt.Errorf("no transactions are asked of this library")
		}
		made, err := able.session(asked.Address, asked.Group, asked.Topic, asked.Transactional)
		return d.kept(made, err)
	case "open_admin":
		made, err := d.library.admin(asked.Address)
		return d.kept(made, err)
	case "close":
		closing := d.open[asked.Handle].(interface{ close() error })
		delete(d.open, asked.Handle)
		return nil, closing.close()
	}
	switch opened := d.open[asked.Handle].(type) {
	case producer:
		return answerOfProducer(opened, asked)
	case consumer:
		return answerOfConsumer(opened, asked)
	case member:
		return answerOfMember(opened, asked)
	case session:
		return answerOfSession(opened, asked)
	case admin:
		return answerOfAdmin(opened, asked)
	}
	return nil, fmt.Errorf("there is no handle %d", asked.Handle)
}

func (d *desk) kept(made any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	d.last++
	d.open[d.last] = made
	return d.last, nil
}

func answerOfProducer(opened producer, asked *question) (any, error) {
	if asked.Command == "send" {
		return opened.send(asked.Topic, asked.Records)
	}
	return nil, fmt.Errorf("a producer does not know %q", asked.Command)
}

func answerOfConsumer(opened consumer, asked *question) (any, error) {
	switch asked.Command {
	case "read":
		return opened.read(asked.Topic, asked.Starts, asked.Count)
	case "offset_at":
		return opened.offsetAt(asked.Topic, asked.Partition, asked.TimestampMs)
	}
	return nil, fmt.Errorf("a consumer does not know %q", asked.Command)
}

func answerOfMember(opened member, asked *question) (any, error) {
	switch asked.Command {
	case "poll":
		return opened.poll()
	case "commit":
		return nil, opened.commit()
	}
	return nil, fmt.Errorf("a member does not know %q", asked.Command)
}

func answerOfSession(opened session, asked *question) (any, error) {
	if asked.Command == "copy" {
		return opened.copy(asked.Target, asked.IsCommitted)
	}
	return nil, fmt.Errorf("a session does not know %q", asked.Command)
}

func answerOfAdmin(opened admin, asked *question) (any, error) {
	switch asked.Command {
	case "create":
		return nil, opened.create(asked.Topic, asked.Partitions, asked.Configs)
	case "topics":
		return opened.topics()
	case "describe":
		return opened.describe(asked.Topic)
	case "delete":
		return nil, opened.remove(asked.Topic)
	case "grow":
		return nil, opened.grow(asked.Topic, asked.Partitions)
	case "configs":
		return opened.configs(asked.Topic)
	case "broker_configs":
		return opened.brokerConfigs(asked.BrokerID)
	case "alter":
		return nil, opened.alter(asked.Topic, asked.Configs)
	case "alter_some":
		return nil, opened.alterSome(asked.Topic, asked.Configs)
	case "delete_records":
		return opened.deleteRecords(asked.Topic, asked.Before)
	case "first_and_next_offset":
		return opened.firstAndNextOffset(asked.Topic)
	case "log_dirs":
		return opened.logDirs(asked.Topic)
	case "elect":
		return opened.elect(asked.Topic)
	case "cluster":
		return opened.cluster()
	}
	return nil, fmt.Errorf("an admin does not know %q", asked.Command)
}
