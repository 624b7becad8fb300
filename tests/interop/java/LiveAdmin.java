import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/**
 * Kafka's AdminClient, asked by lines of JSON, answering each with a line of JSON.
 *
 * <p>Argument: the bootstrap address. {"command": method of AdminClient, ...} has the fields that the
 * method here reads; partitions are written topic-partition. What is refused is answered {"error": its
 * class, "message": ...}.
 */
public class LiveAdmin {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TIMEOUT_MS = "10000";

    private final Admin admin;

    private LiveAdmin(String bootstrap) {
        this.admin = Admin.create(Map.of(
                "bootstrap.servers", bootstrap,
                "request.timeout.ms", TIMEOUT_MS,
                "default.api.timeout.ms", TIMEOUT_MS,
                "reconnect.backoff.max.ms", "100"));
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        LiveAdmin admin = new LiveAdmin(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(admin.answer(JSON.readTree(line)));
        }
        admin.admin.close();
    }

    private JsonNode answer(JsonNode asked) {
        try {
            return topics(asked);
        } catch (ExecutionException failure) {
            return refused(failure.getCause());
        } catch (Exception failure) {
            failure.printStackTrace();
            return refused(failure);
        }
    }

    private static JsonNode refused(Throwable failure) {
        return JSON.createObjectNode()
                .put("error", failure.getClass().getSimpleName())
                .put("message", String.valueOf(failure.getMessage()));
    }

    private JsonNode topics(JsonNode asked) throws Exception {
        switch (asked.get("command").asText()) {
            case "createTopics": return createTopics(asked);
            case "listTopics": return listTopics(asked);
            case "describeTopics": return describeTopics(asked);
            case "deleteTopics": return done(admin.deleteTopics(named(asked)).all());
            case "createPartitions": return done(admin.createPartitions(Map.of(
                    text(asked, "topic"), NewPartitions.increaseTo(asked.get("count").asInt()))).all());
            case "describeConfigs": return describeConfigs(asked);
            case "incrementalAlterConfigs": return incrementalAlterConfigs(asked);
            default: return cluster(asked);
        }
    }

    private JsonNode cluster(JsonNode asked) throws Exception {
        switch (asked.get("command").asText()) {
            case "describeCluster": return describeCluster();
            case "describeFeatures": return describeFeatures();
            case "electLeaders": return electLeaders(asked);
            case "alterPartitionReassignments": return done(admin.alterPartitionReassignments(Map.of(
                    partition(asked), Optional.of(new NewPartitionReassignment(ints(asked.get("replicas")))))).all());
            case "listPartitionReassignments": return JSON.createObjectNode().put(
                    "count", admin.listPartitionReassignments().reassignments().get().size());
            default: return records(asked);
        }
    }

    private JsonNode records(JsonNode asked) throws Exception {
        switch (asked.get("command").asText()) {
            case "listOffsets": return listOffsets(asked);
            case "deleteRecords": return JSON.createObjectNode().put("low", admin.deleteRecords(Map.of(
                    partition(asked), RecordsToDelete.beforeOffset(asked.get("before").asLong())))
                    .lowWatermarks().get(partition(asked)).get().lowWatermark());
            case "describeProducers": return describeProducers(asked);
            case "describeLogDirs": return describeLogDirs(asked);
            case "describeReplicaLogDirs": return describeReplicaLogDirs(asked);
            case "alterReplicaLogDirs": return done(admin.alterReplicaLogDirs(
                    Map.of(replica(asked), text(asked, "directory"))).all());
            default: return unserved(asked.get("command").asText());
        }
    }

    /** What needs a coordinator, an authorizer or a quorum. */
    private JsonNode unserved(String command) throws Exception {
        switch (command) {
            case "listConsumerGroups": return done(admin.listConsumerGroups().all());
            case "describeConsumerGroups": return done(admin.describeConsumerGroups(Set.of("g")).all());
            case "listConsumerGroupOffsets": return done(admin.listConsumerGroupOffsets("g").all());
            case "deleteConsumerGroups": return done(admin.deleteConsumerGroups(Set.of("g")).all());
            case "listTransactions": return done(admin.listTransactions().all());
            case "describeTransactions": return done(admin.describeTransactions(Set.of("t")).all());
            case "fenceProducers": return done(admin.fenceProducers(Set.of("t")).all());
            case "describeAcls": return done(admin.describeAcls(AclBindingFilter.ANY).values());
            case "deleteAcls": return done(admin.deleteAcls(Set.of(AclBindingFilter.ANY)).all());
            case "describeClientQuotas": return done(
                    admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
            case "describeUserScramCredentials": return done(admin.describeUserScramCredentials().all());
            case "describeDelegationToken": return done(admin.describeDelegationToken().delegationTokens());
            case "describeMetadataQuorum": return done(admin.describeMetadataQuorum().quorumInfo());
            case "listClientMetricsResources": return done(admin.listClientMetricsResources().all());
            case "unregisterBroker": return done(admin.unregisterBroker(1).all());
            default: throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private static JsonNode done(KafkaFuture<?> future) throws Exception {
        future.get();
        return JSON.createObjectNode();
    }

    private JsonNode createTopics(JsonNode asked) throws Exception {
        NewTopic topic = asked.has("assignments")
                ? new NewTopic(text(asked, "topic"), assignments(asked.get("assignments")))
                : new NewTopic(
                        text(asked, "topic"),
                        Optional.of(asked.path("partitions").asInt(-1)).filter(n -> n >= 0),
                        Optional.of((short) asked.path("replication").asInt(-1)).filter(n -> n >= 0));
        topic.configs(texts(asked.path("configs")));
        boolean validates = asked.path("validate_only").asBoolean(false);
        CreateTopicsResult created =
                admin.createTopics(Set.of(topic), new CreateTopicsOptions().validateOnly(validates));
        created.all().get();
        ObjectNode told = JSON.createObjectNode();
        told.put("partitions", created.numPartitions(topic.name()).get());
        told.put("replication", created.replicationFactor(topic.name()).get());
        told.put("id", created.topicId(topic.name()).get().toString());
        told.set("configs", entries(created.config(topic.name()).get()));
        return told;
    }

    private static Map<Integer, List<Integer>> assignments(JsonNode rows) {
        Map<Integer, List<Integer>> assignments = new HashMap<>();
        rows.forEach(row -> assignments.put(assignments.size(), ints(row)));
        return assignments;
    }

    private JsonNode listTopics(JsonNode asked) throws Exception {
        ObjectNode ids = JSON.createObjectNode();
        ListTopicsOptions options = new ListTopicsOptions().listInternal(true);
        admin.listTopics(options).listings().get().forEach(each -> ids.put(each.name(), each.topicId().toString()));
        return ids;
    }

    private JsonNode describeTopics(JsonNode asked) throws Exception {
        Collection<TopicDescription> found = asked.has("ids")
                ? admin.describeTopics(named(asked)).allTopicIds().get().values()
                : admin.describeTopics(named(asked)).allTopicNames().get().values();
        ObjectNode told = JSON.createObjectNode();
        for (TopicDescription topic : found) {
            ObjectNode about = told.putObject(topic.name()).put("id", topic.topicId().toString());
            ArrayNode partitions = about.putArray("partitions");
            topic.partitions().forEach(each -> partitions.addObject()
                    .put("leader", each.leader() == null ? -1 : each.leader().id())
                    .<ObjectNode>set("replicas", ids(each.replicas()))
                    .set("in_sync", ids(each.isr())));
        }
        return told;
    }

    private static TopicCollection named(JsonNode asked) {
        if (asked.has("ids")) {
            Collection<Uuid> ids = new ArrayList<>();
            asked.get("ids").forEach(each -> ids.add(Uuid.fromString(each.asText())));
            return TopicCollection.ofTopicIds(ids);
        }
        Collection<String> names = new ArrayList<>();
        asked.get("topics").forEach(each -> names.add(each.asText()));
        return TopicCollection.ofTopicNames(names);
    }

    private JsonNode describeConfigs(JsonNode asked) throws Exception {
        DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        return entries(admin.describeConfigs(Set.of(resource(asked)), options).all().get().get(resource(asked)));
    }

    private static ObjectNode entries(Config config) {
        ObjectNode told = JSON.createObjectNode();
        for (ConfigEntry entry : config.entries()) {
            ObjectNode about = told.putObject(entry.name())
                    .put("value", entry.value())
                    .put("source", entry.source().name())
                    .put("type", String.valueOf(entry.type()))
                    .put("is_sensitive", entry.isSensitive())
                    .put("is_read_only", entry.isReadOnly())
                    .put("documentation", entry.documentation());
            ArrayNode synonyms = about.putArray("synonyms");
            entry.synonyms().forEach(each ->
                    synonyms.addArray().add(each.name()).add(each.value()).add(each.source().name()));
        }
        return told;
    }

    private JsonNode incrementalAlterConfigs(JsonNode asked) throws Exception {
        Collection<AlterConfigOp> changes = new ArrayList<>();
        asked.get("changes").forEach(each -> changes.add(new AlterConfigOp(
                new ConfigEntry(each.get(1).asText(), each.path(2).asText(null)),
                AlterConfigOp.OpType.valueOf(each.get(0).asText()))));
        return done(admin.incrementalAlterConfigs(Map.of(resource(asked), changes)).all());
    }

    private static ConfigResource resource(JsonNode asked) {
        return asked.has("topic")
                ? new ConfigResource(ConfigResource.Type.TOPIC, text(asked, "topic"))
                : new ConfigResource(ConfigResource.Type.BROKER, text(asked, "broker"));
    }

    private JsonNode describeCluster() throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        ObjectNode told = JSON.createObjectNode()
                .put("id", cluster.clusterId().get()).put("controller", cluster.controller().get().id());
        ObjectNode nodes = told.putObject("nodes");
        cluster.nodes().get().forEach(each -> nodes.put(each.idString(), each.host() + ":" + each.port()));
        return told;
    }

    private JsonNode describeFeatures() throws Exception {
        FeatureMetadata features = admin.describeFeatures().featureMetadata().get();
        return JSON.createObjectNode()
                .put("supported", features.supportedFeatures().size())
                .put("finalized", features.finalizedFeatures().size());
    }

    private JsonNode electLeaders(JsonNode asked) throws Exception {
        Map<TopicPartition, Optional<Throwable>> elected = admin.electLeaders(
                ElectionType.valueOf(text(asked, "type")), Set.of(partition(asked))).partitions().get();
        ObjectNode told = JSON.createObjectNode();
        elected.forEach((each, failure) ->
                told.put(each.toString(), failure.map(f -> f.getClass().getSimpleName()).orElse(null)));
        return told;
    }

    private JsonNode listOffsets(JsonNode asked) throws Exception {
        ObjectNode told = JSON.createObjectNode();
        for (JsonNode spec : asked.get("specs")) {
            ArrayNode found = told.putArray(spec.asText());
            var at = admin.listOffsets(Map.of(partition(asked), spec(spec))).partitionResult(partition(asked)).get();
            found.add(at.offset()).add(at.timestamp()).add(at.leaderEpoch().orElse(-1));
        }
        return told;
    }

    private static OffsetSpec spec(JsonNode spec) {
        switch (spec.asText()) {
            case "earliest": return OffsetSpec.earliest();
            case "latest": return OffsetSpec.latest();
            case "maxTimestamp": return OffsetSpec.maxTimestamp();
            case "earliestLocal": return OffsetSpec.earliestLocal();
            case "latestTiered": return OffsetSpec.latestTiered();
            default: return OffsetSpec.forTimestamp(spec.asLong());
        }
    }

    private JsonNode describeProducers(JsonNode asked) throws Exception {
        ArrayNode told = JSON.createArrayNode();
        admin.describeProducers(Set.of(partition(asked))).partitionResult(partition(asked)).get()
                .activeProducers().forEach(each -> told.addObject()
                        .put("id", each.producerId())
                        .put("epoch", each.producerEpoch())
                        .put("last_sequence", each.lastSequence())
                        .put("last_timestamp", each.lastTimestamp())
                        .put("is_in_transaction", each.currentTransactionStartOffset().isPresent()));
        return JSON.createObjectNode().set("producers", told);
    }

    private JsonNode describeLogDirs(JsonNode asked) throws Exception {
        int broker = asked.get("broker").asInt();
        ObjectNode told = JSON.createObjectNode();
        admin.describeLogDirs(Set.of(broker)).descriptions().get(broker).get().forEach((path, about) -> {
            ObjectNode directory = told.putObject(path)
                    .put("error", String.valueOf(about.error()))
                    .put("total", about.totalBytes().orElse(-1))
                    .put("usable", about.usableBytes().orElse(-1));
            ObjectNode replicas = directory.putObject("replicas");
            about.replicaInfos().forEach((each, replica) -> replicas.putObject(each.toString())
                    .put("size", replica.size()).put("lag", replica.offsetLag()).put("is_future", replica.isFuture()));
        });
        return told;
    }

    private JsonNode describeReplicaLogDirs(JsonNode asked) throws Exception {
        var about = admin.describeReplicaLogDirs(Set.of(replica(asked))).all().get().get(replica(asked));
        return JSON.createObjectNode()
                .put("current", about.getCurrentReplicaLogDir())
                .put("future", about.getFutureReplicaLogDir());
    }

    private static TopicPartition partition(JsonNode asked) {
        return new TopicPartition(text(asked, "topic"), asked.path("partition").asInt(0));
    }

    private static TopicPartitionReplica replica(JsonNode asked) {
        return new TopicPartitionReplica(
                text(asked, "topic"), asked.path("partition").asInt(0), asked.get("broker").asInt());
    }

    private static ArrayNode ids(List<Node> nodes) {
        ArrayNode ids = JSON.createArrayNode();
        nodes.forEach(each -> ids.add(each.id()));
        return ids;
    }

    private static List<Integer> ints(JsonNode numbers) {
        List<Integer> ints = new ArrayList<>();
        numbers.forEach(each -> ints.add(each.asInt()));
        return ints;
    }

    private static Map<String, String> texts(JsonNode fields) {
        Map<String, String> texts = new TreeMap<>();
        fields.fields().forEachRemaining(e -> texts.put(e.getKey(), e.getValue().asText()));
        return texts;
    }

    private static String text(JsonNode asked, String name) {
        return asked.get(name).asText();
    }
}
