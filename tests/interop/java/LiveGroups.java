import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Kafka's consumers in groups, each kept open under a name. They are told what to do by lines of JSON, each
 * answered with a line of JSON; a command that fails is answered {"error": its class, "message": ...}.
 *
 * <p>Argument: the bootstrap address. Every consumer reads one topic; partitions are numbers.
 *
 * <pre>
 * {"command": "open", "name": N, "topic": T, "configs": {...}}     its client id is N
 * {"command": "poll", "name": N}     {"records": [[partition, offset, value]], "assigned": [P],
 *     "events": [["assigned", "revoked" or "lost", P, ...]], "acknowledged": how many async commits, "failed": ...}
 * {"command": "commit", "name": N, "sync": whether to wait, "partition": P, "offset": O, "metadata": M}
 *     without a partition, all that was read
 * {"command": "committed", "name": N, "partitions": [P]}     {"offsets": {P: [offset, metadata] or null}}
 * {"command": "pause" or "resume", "name": N, "partitions": [P]}
 * {"command": "seek", "name": N, "partition": P, "offset": O}
 * {"command": "close", "name": N}
 * </pre>
 */
public class LiveGroups {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(100);

    private final String bootstrap;
    private final Map<String, Member> members = new HashMap<>();

    /** One consumer, and what it was told. */
    private static class Member implements ConsumerRebalanceListener {
        final String topic;
        final KafkaConsumer<String, String> consumer;
        final ArrayNode events = JSON.createArrayNode();
        // As the listener is told: with group.protocol=consumer, assignment() has them a moment earlier.
        final SortedSet<Integer> owned = new TreeSet<>();
        int acknowledged;
        int failed;

        Member(String topic, Map<String, Object> settings) {
            this.topic = topic;
            consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(topic), this);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            keep("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            keep("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            keep("lost", partitions);
        }

        private void keep(String what, Collection<TopicPartition> partitions) {
            ArrayNode event = events.addArray().add(what);
            List<Integer> numbers = partitions.stream().map(TopicPartition::partition).sorted().toList();
            numbers.forEach(event::add);
            if (what.equals("assigned")) {
                owned.addAll(numbers);
            } else {
                owned.removeAll(numbers);
            }
        }

        List<TopicPartition> partitions(JsonNode numbers) {
            List<TopicPartition> partitions = new ArrayList<>();
            numbers.forEach(each -> partitions.add(new TopicPartition(topic, each.asInt())));
            return partitions;
        }
    }

    private LiveGroups(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        LiveGroups groups = new LiveGroups(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(groups.answer(JSON.readTree(line)));
        }
        groups.members.values().forEach(each -> each.consumer.close(Duration.ZERO));
    }

    private JsonNode answer(JsonNode asked) {
        try {
            String name = asked.get("name").asText();
            if (asked.get("command").asText().equals("open")) {
                members.put(name, new Member(asked.get("topic").asText(), settings(asked)));
                return JSON.createObjectNode();
            }
            Member member = members.get(name);
            switch (asked.get("command").asText()) {
                case "poll": return poll(member);
                case "commit": return commit(member, asked);
                case "committed": return committed(member, asked);
                case "pause": member.consumer.pause(member.partitions(asked.get("partitions"))); break;
                case "resume": member.consumer.resume(member.partitions(asked.get("partitions"))); break;
                case "seek": member.consumer.seek(place(member, asked), asked.get("offset").asLong()); break;
                case "close": members.remove(name).consumer.close(); break;
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

    private static TopicPartition place(Member member, JsonNode asked) {
        return new TopicPartition(member.topic, asked.get("partition").asInt());
    }

    private static JsonNode poll(Member member) {
        ObjectNode told = JSON.createObjectNode();
        ArrayNode records = told.putArray("records");
        member.consumer.poll(POLL).forEach(each ->
                records.addArray().add(each.partition()).add(each.offset()).add(each.value()));
        ArrayNode assigned = told.putArray("assigned");
        member.owned.forEach(assigned::add);
        told.set("events", member.events.deepCopy());
        return told.put("acknowledged", member.acknowledged).put("failed", member.failed);
    }

    private static JsonNode commit(Member member, JsonNode asked) {
        Map<TopicPartition, OffsetAndMetadata> offsets = null;
        if (asked.has("partition")) {
            offsets = Map.of(place(member, asked),
                    new OffsetAndMetadata(asked.get("offset").asLong(), asked.path("metadata").asText("")));
        }
        if (!asked.get("sync").asBoolean()) {
            member.consumer.commitAsync((committed, failure) -> {
                if (failure == null) {
                    member.acknowledged++;
                } else {
                    member.failed++;
                }
            });
        } else if (offsets == null) {
            member.consumer.commitSync();
        } else {
            member.consumer.commitSync(offsets);
        }
        return JSON.createObjectNode();
    }

    private static JsonNode committed(Member member, JsonNode asked) {
        Set<TopicPartition> wanted = new HashSet<>(member.partitions(asked.get("partitions")));
        Map<TopicPartition, OffsetAndMetadata> found = member.consumer.committed(wanted);
        ObjectNode told = JSON.createObjectNode();
        ObjectNode offsets = told.putObject("offsets");
        for (TopicPartition each : wanted) {
            OffsetAndMetadata at = found.get(each);
            String partition = Integer.toString(each.partition());
            if (at == null) {
                offsets.putNull(partition);
            } else {
                offsets.putArray(partition).add(at.offset()).add(at.metadata());
            }
        }
        return told;
    }

    private Map<String, Object> settings(JsonNode asked) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", asked.get("name").asText());
        settings.put("fetch.max.wait.ms", "50");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        asked.path("configs").fields().forEachRemaining(e -> settings.put(e.getKey(), e.getValue().asText()));
        return settings;
    }
}
