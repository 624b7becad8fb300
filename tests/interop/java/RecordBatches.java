/*
 * Batches of magic 2 as Kafka's own classes build them: a line for each, its name and its bytes in hex.
 *
 *   java -cp 'libs/*' RecordBatches.java
 *
 * Needs kafka-clients 3.9 or 4.1 and the codecs it depends on.  What is printed is kept in tests/support/java_batches.py.
 */

import java.nio.ByteBuffer;
import java.util.HexFormat;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Utils;

public class RecordBatches {
    static final Header[] HEADERS = {
        new RecordHeader("h", bytes("x")), new RecordHeader("", null), new RecordHeader("\u00e9", new byte[0])
    };

    /** What a batch says besides its records; the methods give another that differs in one thing. */
    record Fields(long baseOffset, Compression codec, Long appendTime, long deleteHorizon, boolean transactional) {
        static final Fields PLAIN = new Fields(0, Compression.NONE, null, RecordBatch.NO_TIMESTAMP, false);

        Fields with(Compression other) {
            return new Fields(baseOffset, other, appendTime, deleteHorizon, transactional);
        }
    }

    public static void main(String[] arguments) {
        print("plain", fourRecords(Fields.PLAIN));
        print("transactional", fourRecords(
            new Fields(5_000_000_000L, Compression.NONE, null, RecordBatch.NO_TIMESTAMP, true)));
        print("append_time", fourRecords(
            new Fields(0, Compression.NONE, 123_456L, RecordBatch.NO_TIMESTAMP, false)));
        print("delete_horizon", fourRecords(new Fields(0, Compression.NONE, null, 500_000, false)));
        MemoryRecordsBuilder compacted = withFourRecords(Fields.PLAIN);
        compacted.overrideLastOffset(1000);
        print("last_offset", compacted.build());
        MemoryRecordsBuilder timeless = builder(Fields.PLAIN);
        timeless.appendWithOffset(0, RecordBatch.NO_TIMESTAMP, bytes("k"), bytes("v"), Record.EMPTY_HEADERS);
        print("no_timestamp", timeless.build());
        print("empty", empty(TimestampType.CREATE_TIME, 12, false));
        print("empty_control", empty(TimestampType.LOG_APPEND_TIME, RecordBatch.NO_SEQUENCE, true));
        print("gzip", fourRecords(Fields.PLAIN.with(Compression.gzip().build())));
        print("snappy", fourRecords(Fields.PLAIN.with(Compression.snappy().build())));
        print("lz4", fourRecords(Fields.PLAIN.with(Compression.lz4().build())));
        print("zstd", fourRecords(Fields.PLAIN.with(Compression.zstd().build())));
        print("zstd_level_22", fourRecords(Fields.PLAIN.with(Compression.zstd().level(22).build())));
        print("commit", marker(ControlRecordType.COMMIT, 5));
        print("abort", marker(ControlRecordType.ABORT, 6));
    }

    static MemoryRecords fourRecords(Fields fields) {
        return withFourRecords(fields).build();
    }

    static MemoryRecordsBuilder withFourRecords(Fields fields) {
        MemoryRecordsBuilder builder = builder(fields);
        long base = fields.baseOffset;
        builder.appendWithOffset(base, 1000, bytes("k"), bytes("v"), Record.EMPTY_HEADERS);
        builder.appendWithOffset(base + 1, 1005, null, new byte[0], HEADERS);
        builder.appendWithOffset(base + 3, 900, new byte[0], null, Record.EMPTY_HEADERS);
        builder.appendWithOffset(base + 300, 1_000_000_000, (byte[]) null, null, Record.EMPTY_HEADERS);
        return builder;
    }

    static MemoryRecordsBuilder builder(Fields fields) {
        boolean byProducer = fields.transactional;
        return new MemoryRecordsBuilder(
            new ByteBufferOutputStream(1024),
            RecordBatch.MAGIC_VALUE_V2,
            fields.codec,
            fields.appendTime == null ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME,
            fields.baseOffset,
            fields.appendTime == null ? RecordBatch.NO_TIMESTAMP : fields.appendTime,
            byProducer ? 77 : RecordBatch.NO_PRODUCER_ID,
            byProducer ? 3 : RecordBatch.NO_PRODUCER_EPOCH,
            byProducer ? 2_147_483_600 : RecordBatch.NO_SEQUENCE,
            fields.transactional,
            false,
            byProducer ? 9 : RecordBatch.NO_PARTITION_LEADER_EPOCH,
            1024,
            fields.deleteHorizon);
    }

    static MemoryRecords empty(TimestampType type, int baseSequence, boolean isControl) {
        ByteBuffer buffer = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(buffer, RecordBatch.MAGIC_VALUE_V2, 77, (short) 3, baseSequence,
            100, 110, 7, type, 4444, true, isControl);
        buffer.flip();
        return MemoryRecords.readableRecords(buffer);
    }

    static MemoryRecords marker(ControlRecordType type, int coordinatorEpoch) {
        return MemoryRecords.withEndTransactionMarker(40, 1234, 7, 77, (short) 3,
            new EndTransactionMarker(type, coordinatorEpoch));
    }

    static byte[] bytes(String text) {
        return text.getBytes();
    }

    static void print(String name, MemoryRecords batch) {
        System.out.println(name + "\t" + HexFormat.of().formatHex(Utils.toArray(batch.buffer())));
    }
}
