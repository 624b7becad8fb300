import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * What a broker tells of its partitions, asked through Kafka's own consumer and admin client.
 *
 * <p>Argument: the bootstrap address. Each line of JSON is answered with a line of JSON; a question
 * that fails with {"error": ...}. Bytes travel as base64, null as null. I is "read_committed" or
 * "read_uncommitted".
 *
 * <pre>
 * {"ask": "partitions"}                                           all, with those of internal topics
 * {"ask": "records",   "topic": T, "partition": P, "isolation": I}   from the first to the end known now
 * {"ask": "earliest",  "topic": T, "partition": P, "isolation": I}   an offset, its timestamp, its epoch
 * {"ask": "latest",    ...}
 * {"ask": "largest",   ...}                                       the largest timestamp
 * {"ask": "from",      ..., "timestamp": N}                       the first at or after that time
 * {"ask": "producers", "topic": T, "partition": P}
 * </pre>
 */
public class PartitionObserver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(200);

    private final String bootstrap;
    private final Admin admin;

    private PartitionObserver(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(settings());
    }

    public static void main(String[] arguments) throws Exception {
        PartitionObserver observer = new PartitionObserver(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(observer.answer(JSON.readTree(line)));
        }
        observer.admin.close();
    }

    private JsonNode answer(JsonNode asked) {
        try {
            switch (asked.get("ask").asText()) {
                case "partitions": return partitions();
                case "records": return records(asked);
                case "earliest": return offset(asked, OffsetSpec.earliest());
                case "latest": return offset(asked, OffsetSpec.latest());
                case "largest": return offset(asked, OffsetSpec.maxTimestamp());
                case "from": return offset(asked, OffsetSpec.forTimestamp(asked.get("timestamp").asLong()));
                case "producers": return producers(asked);
                default: throw new IllegalArgumentException("unknown question");
            }
        } catch (Exception failure) {
            failure.printStackTrace();
            return JSON.createObjectNode().put("error", failure.toString());
        }
    }

    private JsonNode partitions() throws Exception {
        ArrayNode found = JSON.createArrayNode();
        var names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
        for (TopicDescription topic : admin.describeTopics(names).allTopicNames().get().values()) {
            topic.partitions().forEach(each -> found.addArray().add(topic.name()).add(each.partition()));
        }
        return JSON.createObjectNode().set("partitions", found);
    }

    private JsonNode records(JsonNode asked) {
        TopicPartition partition = partition(asked);
        Map<String, Object> settings = settings();
        settings.put("isolation.level", asked.get("isolation").asText());
        settings.put("fetch.max.wait.ms", "10"); // closing waits for the last fetch, which finds nothing
        ArrayNode records = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                consumer.poll(POLL).forEach(record -> records.add(described(record)));
            }
        }
        return JSON.createObjectNode().set("records", records);
    }

    private static ObjectNode described(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode described = JSON.createObjectNode();
        described.put("offset", record.offset());
        described.put("timestamp", record.timestamp());
        described.put("timestamp_type", record.timestampType().name);
        described.put("key", text(record.key()));
        described.put("value", text(record.value()));
        ArrayNode headers = described.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return described;
    }

    private JsonNode offset(JsonNode asked, OffsetSpec wanted) throws Exception {
        boolean committed = asked.get("isolation").asText().equals("read_committed");
        ListOffsetsOptions options = new ListOffsetsOptions(
                committed ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED);
        TopicPartition partition = partition(asked);
        ListOffsetsResultInfo found =
                admin.listOffsets(Map.of(partition, wanted), options).partitionResult(partition).get();
        return JSON.createObjectNode()
                .put("offset", found.offset())
                .put("timestamp", found.timestamp())
                .put("leader_epoch", found.leaderEpoch().orElse(-1));
    }

    private JsonNode producers(JsonNode asked) throws Exception {
        TopicPartition partition = partition(asked);
        ArrayNode found = JSON.createArrayNode();
        var described = admin.describeProducers(List.of(partition)).partitionResult(partition).get();
        for (ProducerState producer : described.activeProducers()) {
            found.addObject()
                    .put("producer_id", producer.producerId())
                    .put("epoch", producer.producerEpoch())
                    .put("last_sequence", producer.lastSequence())
                    .put("last_timestamp", producer.lastTimestamp())
                    .put("coordinator_epoch", producer.coordinatorEpoch().orElse(-1))
                    .put("transaction_first_offset", producer.currentTransactionStartOffset().orElse(-1));
        }
        return JSON.createObjectNode().set("producers", found);
    }

    private static TopicPartition partition(JsonNode asked) {
        return new TopicPartition(asked.get("topic").asText(), asked.get("partition").asInt());
    }

    private Map<String, Object> settings() {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        return settings;
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
