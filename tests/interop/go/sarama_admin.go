package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/IBM/sarama"
)

type saramaAdmin struct {
	client sarama.Client
	admin  sarama.ClusterAdmin
}

func (saramas) admin(address string) (admin, error) {
	client, err := sarama.NewClient([]string{address}, settings())
	if err != nil {
		return nil, err
	}
	made, err := sarama.NewClusterAdminFromClient(client)
	return &saramaAdmin{client, made}, err
}

func (a *saramaAdmin) create(topic string, partitions int32, configs map[string]string) error {
	detail := &sarama.TopicDetail{
		NumPartitions:     partitions,
		ReplicationFactor: 1,
		ConfigEntries:     pointers(configs),
	}
	return a.admin.CreateTopic(topic, detail, false)
}

func (a *saramaAdmin) topics() ([]string, error) {
	listed, err := a.admin.ListTopics()
	names := []string{}
	for name := range listed {
		names = append(names, name)
	}
	return names, err
}

func (a *saramaAdmin) describe(topic string) (map[int32]described, error) {
	listed, err := a.admin.DescribeTopics([]string{topic})
	if err != nil {
		return nil, err
	}
	if listed[0].Err != sarama.ErrNoError {
		return nil, listed[0].Err
	}
	told := map[int32]described{}
	for _, one := range listed[0].Partitions {
		told[one.ID] = described{one.Leader, one.Replicas, one.Isr}
	}
	return told, nil
}

func (a *saramaAdmin) remove(topic string) error { return a.admin.DeleteTopic(topic) }

func (a *saramaAdmin) grow(topic string, partitions int32) error {
	return a.admin.CreatePartitions(topic, partitions, nil, false)
}

func (a *saramaAdmin) configs(topic string) (map[string]*string, error) {
	return a.told(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
}

func (a *saramaAdmin) brokerConfigs(brokerID int32) (map[string]*string, error) {
	name := strconv.Itoa(int(brokerID))
	return a.told(sarama.ConfigResource{Type: sarama.BrokerResource, Name: name})
}

func (a *saramaAdmin) told(resource sarama.ConfigResource) (map[string]*string, error) {
	entries, err := a.admin.DescribeConfig(resource)
	values := map[string]*string{}
	for _, each := range entries {
		values[each.Name] = &each.Value
	}
	return values, err
}

func (a *saramaAdmin) alter(topic string, configs map[string]string) error {
	return a.admin.AlterConfig(sarama.TopicResource, topic, pointers(configs), false)
}

func (a *saramaAdmin) alterSome(topic string, configs map[string]string) error {
	asked := map[string]sarama.IncrementalAlterConfigsEntry{}
	for name, value := range configs {
		asked[name] = sarama.IncrementalAlterConfigsEntry{
			Operation: sarama.IncrementalAlterConfigsOperationSet,
			Value:     &value,
		}
	}
	return a.admin.IncrementalAlterConfig(sarama.TopicResource, topic, asked, false)
}

// deleteRecords asks for the first offset afterwards, as the library keeps the broker's answer.
func (a *saramaAdmin) deleteRecords(topic string, before int64) (int64, error) {
	if err := a.admin.DeleteRecords(topic, map[int32]int64{0: before}); err != nil {
		return 0, err
	}
	return a.offset(topic, sarama.OffsetOldest)
}

func (a *saramaAdmin) firstAndNextOffset(topic string) ([2]int64, error) {
	first, err := a.offset(topic, sarama.OffsetOldest)
	if err != nil {
		return [2]int64{}, err
	}
	next, err := a.offset(topic, sarama.OffsetNewest)
	return [2]int64{first, next}, err
}

func (a *saramaAdmin) offset(topic string, at int64) (int64, error) {
	asked := map[string]map[int32]int64{topic: {0: at}}
	told, err := a.admin.ListOffsets(asked, &sarama.ListOffsetsOptions{})
	if err != nil {
		return 0, err
	}
	found := told[topic][0]
	// The library's error where there was none is not nil.
	if found.Err != nil && !errors.Is(found.Err, sarama.ErrNoError) {
		return 0, found.Err
	}
	return found.Offset, nil
}

func (a *saramaAdmin) logDirs(topic string) (map[string]map[int32]int64, error) {
	brokers := []int32{}
	for _, one := range a.client.Brokers() {
		brokers = append(brokers, one.ID())
	}
	told, err := a.admin.DescribeLogDirs(brokers)
	sizes := map[string]map[int32]int64{}
	for _, folders := range told {
		for _, folder := range folders {
			sizes[folder.Path] = sizesOf(topic, folder)
		}
	}
	return sizes, err
}

func sizesOf(topic string, folder sarama.DescribeLogDirsResponseDirMetadata) map[int32]int64 {
	sizes := map[int32]int64{}
	for _, found := range folder.Topics {
		if found.Topic != topic {
			continue
		}
		for _, one := range found.Partitions {
			sizes[one.PartitionID] = one.Size
		}
	}
	return sizes
}

func (a *saramaAdmin) elect(topic string) (string, error) {
	asked := map[string][]int32{topic: {0}}
	told, err := a.admin.ElectLeaders(sarama.PreferredElection, asked)
	if err != nil {
		return "", err
	}
	return nameOf(told[topic][0].ErrorCode), nil
}

// cluster asks for metadata besides, as the library's admin does not tell the cluster's id.
func (a *saramaAdmin) cluster() (cluster, error) {
	listed, controller, err := a.admin.DescribeCluster()
	if err != nil {
		return cluster{}, err
	}
	brokers := map[int32]string{}
	for _, one := range listed {
		brokers[one.ID()] = one.Addr()
	}
	leading, err := a.admin.Controller()
	if err != nil {
		return cluster{}, err
	}
	asked := sarama.NewMetadataRequest(a.client.Config().Version, nil)
	told, err := leading.GetMetadata(asked)
	if err != nil {
		return cluster{}, err
	}
	if told.ClusterID == nil {
		return cluster{}, fmt.Errorf("the cluster has no id")
	}
	return cluster{*told.ClusterID, controller, brokers}, nil
}

// close closes the client too.
func (a *saramaAdmin) close() error { return a.admin.Close() }
