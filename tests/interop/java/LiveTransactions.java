import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's transactional producers, and the group consumers whose offsets they commit, each kept open under a
 * name. They are told what to do by lines of JSON, each answered with a line of JSON; a command that fails is
 * answered {"error": its class, "message": ...}.
 *
 * <p>Argument: the bootstrap address.
 *
 * <pre>
 * {"command": "producer", "name": N, "configs": {...}}     open one; its client id is N
 * {"command": "init", "begin", "commit", "abort" or "close", "name": N}
 * {"command": "send", "name": N, "topic": T, "partition": P, "values": [V]}
 *     {"sent": [offset or the class of an error]}     when all of them are acknowledged or have failed
 * {"command": "consumer", "name": N, "topic": T, "configs": {...}}     open one, of committed records
 * {"command": "poll", "name": N}     {"records": [[partition, offset, value]], "generation": G, "member": M}
 * {"command": "offsets", "name": N, "consumer": C}     in the transaction, all that the consumer has polled
 * {"command": "offsets", "name": N, "topic": T, "offset": O, "group": ..., "generation": ..., "member": ...}
 *     of partition 0, by whoever says so
 * </pre>
 */
public class LiveTransactions {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(100);

    private final String bootstrap;
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private final Map<String, KafkaConsumer<String, String>> consumers = new HashMap<>();

    private LiveTransactions(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        LiveTransactions transactions = new LiveTransactions(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(transactions.answer(JSON.readTree(line)));
        }
        transactions.producers.values().forEach(each -> each.close(Duration.ZERO));
        transactions.consumers.values().forEach(KafkaConsumer::close);
    }

    private JsonNode answer(JsonNode asked) {
        try {
            String name = asked.get("name").asText();
            KafkaProducer<String, String> producer = producers.get(name);
            switch (asked.get("command").asText()) {
                case "producer": producers.put(name, producer(asked)); break;
                case "init": producer.initTransactions(); break;
                case "begin": producer.beginTransaction(); break;
                case "commit": producer.commitTransaction(); break;
                case "abort": producer.abortTransaction(); break;
                case "send": return send(producer, asked);
                case "offsets": sendOffsets(producer, asked); break;
                case "consumer": consumers.put(name, consumer(asked)); break;
                case "poll": return poll(consumers.get(name));
                case "close": close(name); break;
                default: throw new IllegalArgumentException("unknown command");
            }
            return JSON.createObjectNode();
        } catch (Exception failure) {
            failure.printStackTrace();
            return JSON.createObjectNode()
                    .put("error", failure.getClass().getSimpleName())
                    .put("message", String.valueOf(failure.getMessage()));
        }
    }

    private KafkaProducer<String, String> producer(JsonNode asked) {
        return new KafkaProducer<>(settings(asked), new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(JsonNode asked) {
        Map<String, Object> settings = settings(asked);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", "50");
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(asked.get("topic").asText()));
        return consumer;
    }

    private static JsonNode send(KafkaProducer<String, String> producer, JsonNode asked) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode value : asked.get("values")) {
            sent.add(producer.send(new ProducerRecord<>(
                    asked.get("topic").asText(), asked.get("partition").asInt(), null, value.asText())));
        }
        producer.flush();
        ObjectNode told = JSON.createObjectNode();
        ArrayNode offsets = told.putArray("sent");
        for (Future<RecordMetadata> each : sent) {
            try {
                offsets.add(each.get().offset());
            } catch (ExecutionException failure) {
                offsets.add(failure.getCause().getClass().getSimpleName());
            }
        }
        return told;
    }

    private static JsonNode poll(KafkaConsumer<String, String> consumer) {
        ObjectNode told = JSON.createObjectNode();
        ArrayNode records = told.putArray("records");
        consumer.poll(POLL).forEach(each ->
                records.addArray().add(each.partition()).add(each.offset()).add(each.value()));
        ConsumerGroupMetadata group = consumer.groupMetadata();
        return told.put("generation", group.generationId()).put("member", group.memberId());
    }

    private void sendOffsets(KafkaProducer<String, String> producer, JsonNode asked) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        if (asked.has("consumer")) {
            KafkaConsumer<String, String> consumer = consumers.get(asked.get("consumer").asText());
            consumer.assignment().forEach(each ->
                    offsets.put(each, new OffsetAndMetadata(consumer.position(each))));
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            return;
        }
        offsets.put(new TopicPartition(asked.get("topic").asText(), 0),
                new OffsetAndMetadata(asked.get("offset").asLong()));
        producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(
                asked.get("group").asText(),
                asked.path("generation").asInt(-1),
                asked.path("member").asText(""),
                Optional.empty()));
    }

    private void close(String name) {
        if (producers.containsKey(name)) {
            producers.remove(name).close(Duration.ZERO);
        } else {
            consumers.remove(name).close();
        }
    }

    private Map<String, Object> settings(JsonNode asked) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", asked.get("name").asText());
        asked.path("configs").fields().forEachRemaining(e -> settings.put(e.getKey(), e.getValue().asText()));
        return settings;
    }
}
