import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's producers and consumers, each kept open under a name, so that a broker may be restarted under
 * them. They are told what to do by lines of JSON, each answered with a line of JSON.
 *
 * <p>Argument: the bootstrap address. Bytes travel as base64, null as null; partitions are the keys of
 * objects, as text. A command that fails is answered {"error": its class, "message": ...}.
 *
 * <pre>
 * {"command": "producer", "name": N, "configs": {...}}     open one; its client id is N
 * {"command": "send", "name": N, "topic": T, "records": [{"value": B, "key": B, "partition": P,
 *     "timestamp": MS, "headers": [[K, B], ...]}, ...]}     all but the value may be absent
 *     answered {"sent": [[partition, offset, timestamp] or the class of an error, ...]}
 * {"command": "intercepted", "name": N}                    how often Counting was called for N
 * {"command": "consumer", "name": N, "configs": {...}}     open one, for assigned partitions
 * {"command": "read", "name": N, "topic": T, "starts": {P: OFFSET}, "count": C}
 * {"command": "positions", "name": N, "topic": T, "partitions": [P], "seek": "beginning" or "end"}
 * {"command": "bounds", "name": N, "topic": T, "partitions": [P]}     first and next offsets
 * {"command": "times", "name": N, "topic": T, "times": {P: MS}}       [offset, timestamp] or null
 * {"command": "close", "name": N}
 * </pre>
 */
public class LiveClients {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long READ_NANOS = 20_000_000_000L;

    private final String bootstrap;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private final Map<String, KafkaConsumer<byte[], byte[]>> consumers = new HashMap<>();

    /** Counts what a producer sends and what becomes of it, and says so in a header of each record. */
    public static class Counting implements ProducerInterceptor<byte[], byte[]> {
        static final Map<String, Counting> OF = new ConcurrentHashMap<>();

        final AtomicInteger sent = new AtomicInteger();
        final AtomicInteger acknowledged = new AtomicInteger();
        final AtomicInteger failed = new AtomicInteger();

        @Override
        public void configure(Map<String, ?> configs) {
            OF.put((String) configs.get("client.id"), this);
        }

        @Override
        public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
            record.headers().add("number", Integer.toString(sent.getAndIncrement()).getBytes());
            return record;
        }

        @Override
        public void onAcknowledgement(RecordMetadata metadata, Exception failure) {
            (failure == null ? acknowledged : failed).incrementAndGet();
        }

        @Override
        public void close() {
        }
    }

    private LiveClients(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        // A program that is run from its source is not on the classpath, where interceptors are looked for.
        Thread.currentThread().setContextClassLoader(LiveClients.class.getClassLoader());
        LiveClients clients = new LiveClients(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(clients.answer(JSON.readTree(line)));
        }
        clients.producers.values().forEach(producer -> producer.close(Duration.ZERO));
        clients.consumers.values().forEach(KafkaConsumer::close);
    }

    private JsonNode answer(JsonNode asked) {
        try {
            switch (asked.get("command").asText()) {
                case "producer": return producer(asked);
                case "send": return send(asked);
                case "intercepted": return intercepted(asked);
                case "consumer": return consumer(asked);
                case "read": return read(asked);
                case "positions": return positions(asked);
                case "bounds": return bounds(asked);
                case "times": return times(asked);
                case "close": return close(asked);
                default: throw new IllegalArgumentException("unknown command");
            }
        } catch (Exception failure) {
            failure.printStackTrace();
            return JSON.createObjectNode()
                    .put("error", failure.getClass().getSimpleName())
                    .put("message", String.valueOf(failure.getMessage()));
        }
    }

    private JsonNode producer(JsonNode asked) {
        producers.put(asked.get("name").asText(), new KafkaProducer<>(
                settings(asked), new ByteArraySerializer(), new ByteArraySerializer()));
        return JSON.createObjectNode();
    }

    private JsonNode send(JsonNode asked) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producers.get(asked.get("name").asText());
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : asked.get("records")) {
            ProducerRecord<byte[], byte[]> message = new ProducerRecord<>(
                    asked.get("topic").asText(),
                    record.has("partition") ? record.get("partition").asInt() : null,
                    record.has("timestamp") ? record.get("timestamp").asLong() : null,
                    bytes(record.get("key")),
                    bytes(record.get("value")));
            for (JsonNode header : record.path("headers")) {
                message.headers().add(header.get(0).asText(), bytes(header.get(1)));
            }
            sent.add(producer.send(message));
        }
        producer.flush();
        ArrayNode outcomes = JSON.createArrayNode();
        for (Future<RecordMetadata> future : sent) {
            try {
                RecordMetadata written = future.get();
                outcomes.addArray().add(written.partition()).add(written.offset()).add(written.timestamp());
            } catch (ExecutionException failure) {
                outcomes.add(failure.getCause().getClass().getSimpleName());
            }
        }
        return JSON.createObjectNode().set("sent", outcomes);
    }

    private JsonNode intercepted(JsonNode asked) {
        Counting counted = Counting.OF.get(asked.get("name").asText());
        return JSON.createObjectNode()
                .put("sent", counted.sent.get())
                .put("acknowledged", counted.acknowledged.get())
                .put("failed", counted.failed.get());
    }

    private JsonNode consumer(JsonNode asked) {
        Map<String, Object> settings = settings(asked);
        settings.putIfAbsent("fetch.max.wait.ms", "50"); // closing waits for the last fetch, which finds nothing
        settings.putIfAbsent("enable.auto.commit", "false");
        settings.putIfAbsent("auto.offset.reset", "none");
        consumers.put(asked.get("name").asText(), new KafkaConsumer<>(
                settings, new ByteArrayDeserializer(), new ByteArrayDeserializer()));
        return JSON.createObjectNode();
    }

    private JsonNode read(JsonNode asked) {
        KafkaConsumer<byte[], byte[]> consumer = consumers.get(asked.get("name").asText());
        Map<TopicPartition, Long> starts = longs(asked, "starts");
        consumer.assign(starts.keySet());
        starts.forEach(consumer::seek);
        ArrayNode records = JSON.createArrayNode();
        long deadline = System.nanoTime() + READ_NANOS;
        while (records.size() < asked.get("count").asInt() && System.nanoTime() < deadline) {
            consumer.poll(POLL).forEach(record -> records.add(described(record)));
        }
        return JSON.createObjectNode().set("records", records);
    }

    private JsonNode positions(JsonNode asked) {
        KafkaConsumer<byte[], byte[]> consumer = consumers.get(asked.get("name").asText());
        List<TopicPartition> partitions = partitions(asked);
        consumer.assign(partitions);
        if (asked.get("seek").asText().equals("beginning")) {
            consumer.seekToBeginning(partitions);
        } else {
            consumer.seekToEnd(partitions);
        }
        ObjectNode positions = JSON.createObjectNode();
        partitions.forEach(each -> positions.put(Integer.toString(each.partition()), consumer.position(each)));
        return JSON.createObjectNode().set("positions", positions);
    }

    private JsonNode bounds(JsonNode asked) {
        KafkaConsumer<byte[], byte[]> consumer = consumers.get(asked.get("name").asText());
        Map<TopicPartition, Long> first = consumer.beginningOffsets(partitions(asked));
        Map<TopicPartition, Long> next = consumer.endOffsets(partitions(asked));
        ObjectNode bounds = JSON.createObjectNode();
        first.forEach((each, offset) ->
                bounds.putArray(Integer.toString(each.partition())).add(offset).add(next.get(each)));
        return JSON.createObjectNode().set("bounds", bounds);
    }

    private JsonNode times(JsonNode asked) {
        KafkaConsumer<byte[], byte[]> consumer = consumers.get(asked.get("name").asText());
        ObjectNode found = JSON.createObjectNode();
        consumer.offsetsForTimes(longs(asked, "times")).forEach((each, at) -> {
            String partition = Integer.toString(each.partition());
            if (at == null) {
                found.putNull(partition);
            } else {
                found.putArray(partition).add(at.offset()).add(at.timestamp());
            }
        });
        return JSON.createObjectNode().set("found", found);
    }

    private JsonNode close(JsonNode asked) {
        String name = asked.get("name").asText();
        if (producers.containsKey(name)) {
            producers.remove(name).close();
        } else {
            consumers.remove(name).close();
        }
        return JSON.createObjectNode();
    }

    private static ObjectNode described(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode described = JSON.createObjectNode();
        described.put("partition", record.partition());
        described.put("offset", record.offset());
        described.put("timestamp", record.timestamp());
        described.put("key", text(record.key()));
        described.put("value", text(record.value()));
        ArrayNode headers = described.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return described;
    }

    private Map<String, Object> settings(JsonNode asked) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", asked.get("name").asText());
        settings.put("reconnect.backoff.max.ms", "100"); // a broker that was restarted is soon found again
        asked.path("configs").fields().forEachRemaining(e -> settings.put(e.getKey(), e.getValue().asText()));
        return settings;
    }

    private static List<TopicPartition> partitions(JsonNode asked) {
        List<TopicPartition> partitions = new ArrayList<>();
        asked.get("partitions").forEach(each ->
                partitions.add(new TopicPartition(asked.get("topic").asText(), each.asInt())));
        return partitions;
    }

    private static Map<TopicPartition, Long> longs(JsonNode asked, String name) {
        Map<TopicPartition, Long> longs = new HashMap<>();
        asked.get(name).fields().forEachRemaining(e -> longs.put(
                new TopicPartition(asked.get("topic").asText(), Integer.parseInt(e.getKey())), e.getValue().asLong()));
        return longs;
    }

    private static byte[] bytes(JsonNode text) {
        return text == null || text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
