package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franzAdmin struct{ client *kadm.Client }

func (franz) admin(address string) (admin, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.MetadataMinAge(patience))
	if err != nil {
		return nil, err
	}
	return &franzAdmin{kadm.NewClient(client)}, nil
}

func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), timeout)
}

func (a *franzAdmin) create(topic string, partitions int32, configs map[string]string) error {
	until, cancel := within()
	defer cancel()
	_, err := a.client.CreateTopic(until, partitions, 1, pointers(configs), topic)
	return err
}

func (a *franzAdmin) topics() ([]string, error) {
	until, cancel := within()
	defer cancel()
	listed, err := a.client.ListTopics(until)
	return listed.Names(), err
}

func (a *franzAdmin) describe(topic string) (map[int32]described, error) {
	until, cancel := within()
	defer cancel()
	listed, err := a.client.ListTopics(until, topic)
	if err = errors.Join(err, listed.Error()); err != nil {
		return nil, err
	}
	told := map[int32]described{}
	for number, one := range listed[topic].Partitions {
		told[number] = described{one.Leader, one.Replicas, one.ISR}
	}
	return told, nil
}

func (a *franzAdmin) remove(topic string) error {
	until, cancel := within()
	defer cancel()
	_, err := a.client.DeleteTopic(until, topic)
	return err
}

func (a *franzAdmin) grow(topic string, partitions int32) error {
	until, cancel := within()
	defer cancel()
	told, err := a.client.UpdatePartitions(until, int(partitions), topic)
	return errors.Join(err, told.Error())
}

func (a *franzAdmin) configs(topic string) (map[string]*string, error) {
	until, cancel := within()
	defer cancel()
	return toldConfigs(a.client.DescribeTopicConfigs(until, topic))
}

func (a *franzAdmin) brokerConfigs(brokerID int32) (map[string]*string, error) {
	until, cancel := within()
	defer cancel()
	return toldConfigs(a.client.DescribeBrokerConfigs(until, brokerID))
}

func toldConfigs(told kadm.ResourceConfigs, err error) (map[string]*string, error) {
	if err != nil {
		return nil, err
	}
	values := map[string]*string{}
	for _, resource := range told {
		if resource.Err != nil {
			return nil, resource.Err
		}
		for _, each := range resource.Configs {
			values[each.Key] = each.Value
		}
	}
	return values, nil
}

func (a *franzAdmin) alter(topic string, configs map[string]string) error {
	until, cancel := within()
	defer cancel()
	return altered(a.client.AlterTopicConfigsState(until, alterations(configs), topic))
}

func (a *franzAdmin) alterSome(topic string, configs map[string]string) error {
	until, cancel := within()
	defer cancel()
	return altered(a.client.AlterTopicConfigs(until, alterations(configs), topic))
}

func alterations(configs map[string]string) []kadm.AlterConfig {
	asked := []kadm.AlterConfig{}
	for name, value := range configs {
		asked = append(asked, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	return asked
}

func altered(told kadm.AlterConfigsResponses, err error) error {
	for _, each := range told {
		err = errors.Join(err, each.Err)
	}
	return err
}

func (a *franzAdmin) deleteRecords(topic string, before int64) (int64, error) {
	until, cancel := within()
	defer cancel()
	asked := kadm.Offsets{}
	asked.AddOffset(topic, 0, before, -1)
	told, err := a.client.DeleteRecords(until, asked)
	if err = errors.Join(err, told.Error()); err != nil {
		return 0, err
	}
	return told[topic][0].LowWatermark, nil
}

func (a *franzAdmin) firstAndNextOffset(topic string) ([2]int64, error) {
	until, cancel := within()
	defer cancel()
	first, err := a.client.ListStartOffsets(until, topic)
	if err = errors.Join(err, first.Error()); err != nil {
		return [2]int64{}, err
	}
	next, err := a.client.ListEndOffsets(until, topic)
	return [2]int64{first[topic][0].Offset, next[topic][0].Offset}, errors.Join(err, next.Error())
}

func (a *franzAdmin) logDirs(topic string) (map[string]map[int32]int64, error) {
	until, cancel := within()
	defer cancel()
	told, err := a.client.DescribeAllLogDirs(until, nil)
	sizes := map[string]map[int32]int64{}
	told.Each(func(folder kadm.DescribedLogDir) {
		err = errors.Join(err, folder.Err)
		sizes[folder.Dir] = map[int32]int64{}
		for number, one := range folder.Topics[topic] {
			sizes[folder.Dir][number] = one.Size
		}
	})
	return sizes, err
}

func (a *franzAdmin) elect(topic string) (string, error) {
	until, cancel := within()
	defer cancel()
	asked := kadm.TopicsSet{}
	asked.Add(topic, 0)
	told, err := a.client.ElectLeaders(until, kadm.ElectPreferredReplica, asked)
	if err != nil {
		return "", err
	}
	return nameOf(told[topic][0].Err), nil
}

func (a *franzAdmin) cluster() (cluster, error) {
	until, cancel := within()
	defer cancel()
	told, err := a.client.BrokerMetadata(until)
	brokers := map[int32]string{}
	for _, one := range told.Brokers {
		brokers[one.NodeID] = fmt.Sprintf("%s:%d", one.Host, one.Port)
	}
	return cluster{told.Cluster, told.Controller, brokers}, err
}

func (a *franzAdmin) close() error {
	a.client.Close()
	return nil
}

func pointers(configs map[string]string) map[string]*string {
	pointed := map[string]*string{}
	for name, value := range configs {
		pointed[name] = &value
	}
	return pointed
}
