import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own client, told what to do by lines of JSON, answering each with a line of JSON.
 *
 * <p>Argument: the bootstrap address. Bytes travel as base64, null as null. A command that fails is
 * answered {"error": ...}. Partition 0 is the only one used.
 *
 * <pre>
 * {"command": "create",  "topic": T, "configs": {...}}
 * {"command": "alter",   "topic": T, "configs": {...}}
 * {"command": "produce", "topic": T, "configs": {...}, "rounds": [{"end": E, "batches": [[R, ...]]}]}
 *     E is "commit" or "abort" for a transaction, absent for none; each list of R is sent as one batch
 * {"command": "consume", "topic": T, "configs": {...}}   from the first record to the end known now
 * </pre>
 */
public class JavaClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(200);

    private final String bootstrap;
    private final Admin admin;

    private JavaClient(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(settings(null));
    }

    public static void main(String[] arguments) throws Exception {
        JavaClient client = new JavaClient(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(client.answer(JSON.readTree(line)));
        }
        client.admin.close();
    }

    private JsonNode answer(JsonNode asked) {
        try {
            switch (asked.get("command").asText()) {
                case "create": return create(asked);
                case "alter": return alter(asked);
                case "produce": return produce(asked);
                case "consume": return consume(asked);
                default: throw new IllegalArgumentException("unknown command");
            }
        } catch (Exception failure) {
            failure.printStackTrace();
            return JSON.createObjectNode().put("error", failure.toString());
        }
    }

    private JsonNode create(JsonNode asked) throws Exception {
        NewTopic topic = new NewTopic(asked.get("topic").asText(), 1, (short) 1);
        Map<String, String> configs = new HashMap<>();
        asked.path("configs").fields().forEachRemaining(e -> configs.put(e.getKey(), e.getValue().asText()));
        admin.createTopics(List.of(topic.configs(configs))).all().get();
        return JSON.createObjectNode();
    }

    private JsonNode alter(JsonNode asked) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, asked.get("topic").asText());
        Collection<AlterConfigOp> changes = new ArrayList<>();
        asked.path("configs").fields().forEachRemaining(e -> changes.add(
                new AlterConfigOp(new ConfigEntry(e.getKey(), e.getValue().asText()), AlterConfigOp.OpType.SET)));
        admin.incrementalAlterConfigs(Map.of(topic, changes)).all().get();
        return JSON.createObjectNode();
    }

    private JsonNode produce(JsonNode asked) throws Exception {
        Map<String, Object> settings = settings(asked.get("configs"));
        settings.putIfAbsent("linger.ms", "30000"); // so that only a flush ends a batch
        settings.putIfAbsent("batch.size", "1000000");
        ArrayNode offsets = JSON.createArrayNode();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (settings.containsKey("transactional.id")) {
                producer.initTransactions();
            }
            for (JsonNode round : asked.get("rounds")) {
                String end = round.path("end").asText("");
                if (!end.isEmpty()) {
                    producer.beginTransaction();
                }
                for (JsonNode batch : round.get("batches")) {
                    send(producer, asked.get("topic").asText(), batch, offsets);
                }
                if (end.equals("commit")) {
                    producer.commitTransaction();
                } else if (end.equals("abort")) {
                    producer.abortTransaction();
                }
            }
        }
        return JSON.createObjectNode().set("offsets", offsets);
    }

    private static void send(
            KafkaProducer<byte[], byte[]> producer, String topic, JsonNode batch, ArrayNode offsets) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : batch) {
            ProducerRecord<byte[], byte[]> message = new ProducerRecord<>(
                    topic, 0, record.get("timestamp").asLong(), bytes(record.get("key")), bytes(record.get("value")));
            for (JsonNode header : record.get("headers")) {
                message.headers().add(header.get(0).asText(), bytes(header.get(1)));
            }
            sent.add(producer.send(message));
        }
        producer.flush();
        for (Future<RecordMetadata> future : sent) {
            offsets.add(future.get().offset());
        }
    }

    private JsonNode consume(JsonNode asked) {
        TopicPartition partition = new TopicPartition(asked.get("topic").asText(), 0);
        Map<String, Object> settings = settings(asked.get("configs"));
        settings.putIfAbsent("fetch.max.wait.ms", "10"); // closing waits for the last fetch, which finds nothing
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

    private Map<String, Object> settings(JsonNode configs) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        if (configs != null) {
            configs.fields().forEachRemaining(e -> settings.put(e.getKey(), e.getValue().asText()));
        }
        return settings;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
