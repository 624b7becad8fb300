/*
 * Kafka's own record classes, asked about the old record formats and the conversions between formats.
 *
 * Needs the jars of Apache Kafka 3.9.1 (kafka_2.13 with its dependencies); later releases lack down-conversion.
 *
 *   record the vectors:  java -cp 'libs/*' LegacyRecords.java > tests/vectors/legacy_records.json
 *   read record sets:    java -cp 'libs/*' LegacyRecords.java read < sets.txt
 *                        (one set per line, in hex; one line of JSON comes back for each)
 */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

public class LegacyRecords {
    static final ObjectMapper JSON = new ObjectMapper();
    static final HexFormat HEX = HexFormat.of();
    static final List<CompressionType> CODECS =
        List.of(CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4);
    static final long APPEND_TIME = 1_700_000_099_000L;
    static final Header[] HEADERS = {new RecordHeader("h", new byte[] {1}), new RecordHeader("", null)};

    record Sample(long timestamp, byte[] key, byte[] value) { }

    static final List<Sample> SAMPLES = List.of(
        new Sample(1_700_000_000_000L, null, "first".getBytes()),
        new Sample(1_700_000_000_500L, new byte[0], new byte[0]),
        new Sample(1_700_000_000_250L, "gone".getBytes(), null),
        new Sample(-1L, "key".getBytes(), "word word word word word word word".getBytes()));

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0 && arguments[0].equals("read")) {
            readSets();
            return;
        }
        ObjectNode vectors = JSON.createObjectNode();
        sets(vectors.putArray("sets"));
        down(vectors.putArray("down"));
        appended(vectors.putArray("appended"));
        printOneVectorPerLine(vectors);
    }

    static void printOneVectorPerLine(ObjectNode vectors) {
        String groupEnd = "";
        System.out.print("{");
        for (var group : (Iterable<Map.Entry<String, JsonNode>>) vectors::fields) {
            System.out.print(groupEnd + "\n\"" + group.getKey() + "\": [");
            String entryEnd = "";
            for (JsonNode entry : group.getValue()) {
                System.out.print(entryEnd + "\n" + entry);
                entryEnd = ",";
            }
            System.out.print("\n]");
            groupEnd = ",";
        }
        System.out.println("\n}");
    }

    static void readSets() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode node = JSON.createObjectNode();
            try {
                describe(node, MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(line.strip()))));
            } catch (RuntimeException refused) {
                node.removeAll();
                node.put("refused", refused.toString());
            }
            System.out.println(JSON.writeValueAsString(node));
        }
    }

    /* The type is stored apart from the compressed part, so two codecs suffice for the second; the file stays small. */
    static List<TimestampType> typesTriedWith(CompressionType codec) {
        return codec == CompressionType.NONE || codec == CompressionType.GZIP
            ? List.of(TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
            : List.of(TimestampType.CREATE_TIME);
    }

    // --- sets of one format, as Kafka writes them

    static void sets(ArrayNode out) {
        for (byte magic = 0; magic <= 1; magic++)
            for (CompressionType codec : CODECS) {
                set(out, "magic " + magic + " " + codec.name, old(magic, codec, TimestampType.CREATE_TIME, 0, 1));
                set(out, "magic " + magic + " " + codec.name + " with gaps", old(magic, codec, TimestampType.CREATE_TIME, 100, 3));
            }
        for (CompressionType codec : CODECS) {
            set(out, "magic 1 " + codec.name + " log append time", old((byte) 1, codec, TimestampType.LOG_APPEND_TIME, 7, 1));
            MemoryRecords stamped = old((byte) 1, codec, TimestampType.CREATE_TIME, 40, 1);
            for (MutableRecordBatch batch : stamped.batches())
                batch.setMaxTimestamp(TimestampType.LOG_APPEND_TIME, APPEND_TIME);
            set(out, "magic 1 " + codec.name + " stamped by the broker", stamped);
        }
        MemoryRecords zero = old((byte) 1, CompressionType.GZIP, TimestampType.CREATE_TIME, 0, 1);
        zero.batches().iterator().next().setLastOffset(0);
        set(out, "magic 1 gzip in a wrapper at offset zero", zero);
        set(out, "three magics in sequence", mixed());
    }

    static void set(ArrayNode out, String name, MemoryRecords records) {
        ObjectNode node = out.addObject();
        node.put("name", name);
        describe(node, records);
    }

    static MemoryRecords old(byte magic, CompressionType codec, TimestampType type, long base, int step) {
        return built(magic, codec, type, base, step, Record.EMPTY_HEADERS);
    }

    static MemoryRecords built(byte magic, CompressionType codec, TimestampType type, long base, int step, Header[] headers) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1024), magic,
            Compression.of(codec).build(), type, base, APPEND_TIME);
        long offset = base;
        for (Sample sample : SAMPLES) {
            builder.appendWithOffset(offset, sample.timestamp, sample.key, sample.value, headers);
            offset += step;
        }
        return builder.build();
    }

    static MemoryRecords mixed() {
        return concatenated(List.of(
            old((byte) 0, CompressionType.NONE, TimestampType.CREATE_TIME, 10, 1),
            old((byte) 1, CompressionType.GZIP, TimestampType.CREATE_TIME, 20, 2),
            built((byte) 2, CompressionType.NONE, TimestampType.CREATE_TIME, 30, 1, HEADERS),
            old((byte) 1, CompressionType.NONE, TimestampType.LOG_APPEND_TIME, 40, 1),
            old((byte) 0, CompressionType.LZ4, TimestampType.CREATE_TIME, 50, 1),
            built((byte) 2, CompressionType.SNAPPY, TimestampType.LOG_APPEND_TIME, 60, 3, HEADERS)));
    }

    static MemoryRecords concatenated(List<MemoryRecords> sets) {
        ByteBuffer buffer = ByteBuffer.allocate(sets.stream().mapToInt(MemoryRecords::sizeInBytes).sum());
        sets.forEach(set -> buffer.put(set.buffer().duplicate()));
        buffer.flip();
        return MemoryRecords.readableRecords(buffer);
    }

    // --- down-conversion, as for an old Fetch

    static void down(ArrayNode out) {
        for (byte to = 0; to <= 1; to++) {
            for (CompressionType codec : CODECS)
                for (TimestampType type : typesTriedWith(codec))
                    converted(out, "magic 2 " + codec.name + " " + type.name + " to " + to,
                        built((byte) 2, codec, type, 200, 5, HEADERS), to, 0);
            converted(out, "from the middle of an uncompressed batch to " + to,
                built((byte) 2, CompressionType.NONE, TimestampType.CREATE_TIME, 200, 5, HEADERS), to, 206);
            converted(out, "from the middle of a compressed batch to " + to,
                built((byte) 2, CompressionType.GZIP, TimestampType.CREATE_TIME, 200, 5, HEADERS), to, 206);
            converted(out, "a transaction and its marker to " + to, transaction(), to, 0);
            converted(out, "three magics to " + to, mixed(), to, 0);
        }
        for (CompressionType codec : CODECS)
            for (TimestampType type : typesTriedWith(codec))
                converted(out, "magic 1 " + codec.name + " " + type.name + " to 0",
                    old((byte) 1, codec, type, 300, 2), (byte) 0, 0);
    }

    static MemoryRecords transaction() {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(256), (byte) 2, Compression.NONE,
            TimestampType.CREATE_TIME, 500, RecordBatch.NO_TIMESTAMP, 9L, (short) 1, 0, true, 3);
        builder.append(1_700_000_000_000L, "k".getBytes(), "v".getBytes());
        return concatenated(List.of(builder.build(),
            MemoryRecords.withEndTransactionMarker(501, 1_700_000_000_100L, 3, 9L, (short) 1,
                new EndTransactionMarker(ControlRecordType.COMMIT, 0))));
    }

    static void converted(ArrayNode out, String name, MemoryRecords source, byte magic, long firstOffset) {
        ObjectNode node = out.addObject();
        node.put("name", name);
        node.put("magic", magic);
        node.put("first_offset", firstOffset);
        node.put("source", hex(source));
        var conversion = source.downConvert(magic, firstOffset, Time.SYSTEM);
        node.put("count", conversion.recordConversionStats().numRecordsConverted());
        describe(node.putObject("converted"), conversion.records());
    }

    // --- rebuilding on append, as for a Produce whose format or codec is not the topic's

    static void appended(ArrayNode out) {
        for (byte from = 0; from <= 1; from++)
            for (CompressionType source : CODECS)
                for (CompressionType target : List.of(CompressionType.NONE, CompressionType.LZ4))
                    for (TimestampType type : typesTriedWith(source))
                        appended(out, old(from, source, TimestampType.CREATE_TIME, 0, 1), source, (byte) 2, target, type);
        for (CompressionType codec : List.of(CompressionType.NONE, CompressionType.GZIP)) {
            MemoryRecords plain = built((byte) 2, codec, TimestampType.CREATE_TIME, 0, 1, Record.EMPTY_HEADERS);
            appended(out, plain, codec, (byte) 1, codec, TimestampType.CREATE_TIME);
            appended(out, plain, codec, (byte) 1, codec, TimestampType.LOG_APPEND_TIME);
            appended(out, plain, codec, (byte) 0, codec, TimestampType.CREATE_TIME);
            appended(out, old((byte) 0, codec, TimestampType.CREATE_TIME, 0, 1), codec, (byte) 1, codec, TimestampType.LOG_APPEND_TIME);
            appended(out, old((byte) 1, codec, TimestampType.CREATE_TIME, 0, 1), codec, (byte) 0, codec, TimestampType.CREATE_TIME);
        }
        MemoryRecords idempotent = MemoryRecords.withIdempotentRecords((byte) 2, 0L, Compression.gzip().build(), 9L, (short) 1, 5, -1,
            new org.apache.kafka.common.record.SimpleRecord(1_700_000_000_000L, "k".getBytes(), "v".getBytes(), HEADERS));
        appended(out, idempotent, CompressionType.GZIP, (byte) 2, CompressionType.NONE, TimestampType.CREATE_TIME);
    }

    static void appended(ArrayNode out, MemoryRecords source, CompressionType from, byte magic, CompressionType codec, TimestampType type) {
        ObjectNode node = out.addObject();
        byte fromMagic = source.batches().iterator().next().magic();
        node.put("name", "magic " + fromMagic + " " + from.name + " to " + magic + " " + codec.name + " " + type.name);
        node.put("source", hex(source));
        node.put("magic", magic);
        node.put("codec", codec.name);
        node.put("timestamp_type", type.name);
        node.put("next_offset", 1000);
        node.put("now_ms", APPEND_TIME);
        node.put("leader_epoch", 7);
        var result = new LogValidator(source, new TopicPartition("t", 0), new Stopped(), from,
            Compression.of(codec).build(), false, magic, type, Long.MAX_VALUE, Long.MAX_VALUE, 7,
            AppendOrigin.CLIENT, MetadataVersion.latestProduction())
            .validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(1000), new Unrecorded(), BufferSupplier.NO_CACHING);
        node.put("max_timestamp", result.maxTimestampMs);
        describe(node.putObject("converted"), result.validatedRecords);
    }

    static class Stopped implements Time {
        public long milliseconds() {
            return APPEND_TIME;
        }
        public long nanoseconds() {
            return 0;
        }
        public void sleep(long ms) { }
        public void waitObject(Object object, java.util.function.Supplier<Boolean> condition, long deadlineMs) { }
    }

    static class Unrecorded implements LogValidator.MetricsRecorder {
        public void recordInvalidMagic() { }
        public void recordInvalidOffset() { }
        public void recordInvalidSequence() { }
        public void recordInvalidChecksums() { }
        public void recordNoKeyCompactedTopic() { }
    }

    // --- what Kafka reads in a set

    static void describe(ObjectNode node, MemoryRecords set) {
        node.put("bytes", hex(set));
        ArrayNode batches = node.putArray("batches");
        for (RecordBatch batch : set.batches()) {
            batch.ensureValid();
            ObjectNode entry = batches.addObject();
            entry.put("magic", batch.magic());
            entry.put("codec", batch.compressionType().name);
            entry.put("timestamp_type", batch.timestampType().name);
            entry.put("base_offset", batch.baseOffset());
            entry.put("last_offset", batch.lastOffset());
            entry.put("max_timestamp", batch.maxTimestamp());
            entry.put("size_bytes", batch.sizeInBytes());
            ArrayNode records = entry.putArray("records");
            for (Record record : batch) {
                record.ensureValid();
                ArrayNode fields = records.addArray();
                fields.add(record.offset()).add(record.timestamp()).add(hex(record.key())).add(hex(record.value()));
                fields.add(record.headers().length);
            }
        }
    }

    static String hex(MemoryRecords records) {
        return hex(records.buffer());
    }

    static String hex(ByteBuffer bytes) {
        return bytes == null ? null : HEX.formatHex(Utils.toArray(bytes));
    }
}
