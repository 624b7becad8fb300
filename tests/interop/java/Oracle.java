/*
 * Kafka's own message classes, asked what they write and what they read.
 *
 *   java -cp 'libs/*' Oracle.java < questions
 *
 * A question is a line of fields separated by tabs, and gets one line in answer:
 *
 *   versions  CLASS                             the lowest and highest version, and the key (-1: none)
 *   write     CLASS  VERSION  JSON  [PARSED_AS] the bytes of the message, in hex; JSON may be that of another version
 *   read      CLASS  VERSION  HEX               the message as JSON
 *   defaults  CLASS                             the value of each field in a new object, of all versions together
 *   headers   KEY    VERSION                    the versions of the headers of a request and of its response
 *
 * An answer that begins with "! " is the exception that the question met.  CLASS is a simple name, as in
 * HeartbeatRequestData.  JSON is that of Kafka's converters with two additions, which they leave out: record data is
 * read and written whole (in base64), and an object may have "unknownTaggedFields", a list of pairs of tag and base64.
 * Among defaults, an array or a struct is a pair: null or empty, and the defaults of the fields inside.
 */

import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.utils.Utils;

public class Oracle {
    // In ASCII, so that no locale matters to the one who reads the answers.
    static final ObjectMapper JSON = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
    static final HexFormat HEX = HexFormat.of();
    static final String UNKNOWN_TAGS = "unknownTaggedFields";
    static final List<String> PACKAGES = List.of(
        "org.apache.kafka.common.message",
        "org.apache.kafka.coordinator.group.generated",
        "org.apache.kafka.coordinator.transaction.generated",
        "org.apache.kafka.server.log.remote.metadata.storage.generated");
    static final Map<String, Class<?>> KNOWN_CLASSES = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String question = questions.readLine(); question != null; question = questions.readLine()) {
            answers.print(answerOrException(question) + "\n");
            if (!questions.ready())
                answers.flush();
        }
        answers.flush();
    }

    static String answerOrException(String question) {
        try {
            return answer(question.split("\t", -1));
        } catch (InvocationTargetException wrapper) {
            return complaint(wrapper.getCause());
        } catch (Exception | StackOverflowError met) {
            return complaint(met);
        }
    }

    static String complaint(Throwable met) {
        return ("! " + met.getClass().getSimpleName() + ": " + met.getMessage()).replace('\n', ' ');
    }

    static String answer(String[] question) throws Exception {
        short version = question.length > 2 ? Short.parseShort(question[2]) : -1;
        switch (question[0]) {
            case "versions":
                return versions(messageClass(question[1]));
            case "write":
                short parsedAs = question.length > 4 ? Short.parseShort(question[4]) : version;
                Message message = parsed(messageClass(question[1]), parsedAs, JSON.readTree(question[3]));
                return HEX.formatHex(written(message, version));
            case "read":
                Message read = read(messageClass(question[1]), version, HEX.parseHex(question[3]));
                return JSON.writeValueAsString(shown(read, version));
            case "defaults":
                return JSON.writeValueAsString(defaults(messageClass(question[1])));
            case "headers":
                ApiMessageType api = ApiMessageType.fromApiKey(Short.parseShort(question[1]));
                return api.requestHeaderVersion(version) + "\t" + api.responseHeaderVersion(version);
            default:
                throw new IllegalArgumentException("no such question: " + question[0]);
        }
    }

    static Class<?> messageClass(String name) throws ClassNotFoundException {
        Class<?> known = KNOWN_CLASSES.get(name);
        if (known != null)
            return known;
        for (String place : PACKAGES) {
            try {
                Class<?> found = Class.forName(place + "." + name);
                KNOWN_CLASSES.put(name, found);
                return found;
            } catch (ClassNotFoundException elsewhere) {
                // The loop's end reports it.
            }
        }
        throw new ClassNotFoundException(name);
    }

    static String versions(Class<?> type) throws Exception {
        Message message = (Message) type.getConstructor().newInstance();
        short key = message instanceof ApiMessage ? ((ApiMessage) message).apiKey() : -1;
        return message.lowestSupportedVersion() + "\t" + message.highestSupportedVersion() + "\t" + key;
    }

    static Message parsed(Class<?> type, short version, JsonNode json) throws Exception {
        Message message = (Message) converter(type).getMethod("read", JsonNode.class, short.class)
            .invoke(null, json, version);
        addUnknownTags(json, message);
        return message;
    }

    static byte[] written(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining())
            throw new IllegalStateException(buffer.remaining() + " bytes were not written");
        return buffer.array();
    }

    static Message read(Class<?> type, short version, byte[] bytes) throws Exception {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        Message message = (Message) type.getConstructor(Readable.class, short.class)
            .newInstance(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining())
            throw new IllegalStateException(buffer.remaining() + " bytes are left over");
        return message;
    }

    static JsonNode shown(Message message, short version) throws Exception {
        JsonNode json = (JsonNode) converter(message.getClass())
            .getMethod("write", message.getClass(), short.class).invoke(null, message, version);
        showHiddenParts(json, message);
        return json;
    }

    static Class<?> converter(Class<?> type) throws ClassNotFoundException {
        return Class.forName(type.getName() + "JsonConverter");
    }

    // The converters pass over unknown tags and record data: walk the JSON and the message side by side.

    static void addUnknownTags(JsonNode json, Object part) throws Exception {
        if (json.isArray()) {
            Iterator<?> elements = part instanceof Iterable ? ((Iterable<?>) part).iterator() : null;
            for (JsonNode element : json)
                if (element.isObject())
                    addUnknownTags(element, elements.next());
        } else if (json.isObject()) {
            for (String name : names(json))
                if (name.equals(UNKNOWN_TAGS))
                    ((Message) part).unknownTaggedFields().addAll(tags(json.get(name)));
                else if (json.get(name).isContainerNode())
                    addUnknownTags(json.get(name), fieldOf(part, name));
        }
    }

    static List<RawTaggedField> tags(JsonNode json) throws Exception {
        List<RawTaggedField> tags = new ArrayList<>();
        for (JsonNode pair : json)
            tags.add(new RawTaggedField(pair.get(0).intValue(), pair.get(1).binaryValue()));
        return tags;
    }

    static void showHiddenParts(JsonNode json, Object part) throws Exception {
        if (json.isArray()) {
            Iterator<?> elements = part instanceof Iterable ? ((Iterable<?>) part).iterator() : null;
            for (JsonNode element : json)
                if (element.isObject())
                    showHiddenParts(element, elements.next());
        } else if (json.isObject()) {
            for (String name : names(json))
                if (json.get(name).isContainerNode())
                    showHiddenParts(json.get(name), fieldOf(part, name));
            showRecords((ObjectNode) json, part);
            showUnknownTags((ObjectNode) json, ((Message) part).unknownTaggedFields());
        }
    }

    static void showRecords(ObjectNode json, Object part) throws Exception {
        if (json.hasNonNull("records") && fieldOf(part, "records") instanceof MemoryRecords)
            json.put("records", Utils.toArray(((MemoryRecords) fieldOf(part, "records")).buffer()));
    }

    static void showUnknownTags(ObjectNode json, List<RawTaggedField> tags) {
        if (tags.isEmpty())
            return;
        ArrayNode shown = json.putArray(UNKNOWN_TAGS);
        for (RawTaggedField tag : tags)
            shown.addArray().add(tag.tag()).add(tag.data());
    }

    static List<String> names(JsonNode json) {
        List<String> names = new ArrayList<>();
        json.fieldNames().forEachRemaining(names::add);
        return names;
    }

    // Defaults: what a constructor without arguments leaves in the fields.

    static ObjectNode defaults(Class<?> type) throws Exception {
        ObjectNode json = JSON.createObjectNode();
        Object message = type.getConstructor().newInstance();
        for (Field field : type.getDeclaredFields())
            if (!Modifier.isStatic(field.getModifiers()) && isSent(field))
                json.set(field.getName(), defaultOf(field, fieldOf(message, field.getName())));
        return json;
    }

    static boolean isSent(Field field) {
        // The others link the elements of a hash table, or hold the unknown tags.
        return !field.getName().startsWith("_") && !field.getName().equals("next") && !field.getName().equals("prev");
    }

    static JsonNode defaultOf(Field field, Object value) throws Exception {
        Class<?> inside = classInside(field.getGenericType());
        if (inside != null) {
            ArrayNode pair = JSON.createArrayNode().add(value == null ? null : JSON.createArrayNode());
            return Message.class.isAssignableFrom(inside) ? pair.add(defaults(inside)) : pair.addNull();
        }
        if (value instanceof ByteBuffer)
            return JSON.getNodeFactory().binaryNode(Utils.toArray((ByteBuffer) value));
        return JSON.valueToTree(value instanceof Uuid ? value.toString() : value);
    }

    /** The struct itself, or what an array has in it; null where the field is neither. */
    static Class<?> classInside(Type type) {
        if (type instanceof ParameterizedType)
            return (Class<?>) ((ParameterizedType) type).getActualTypeArguments()[0];
        if (Collection.class.isAssignableFrom((Class<?>) type))
            return classInside(((Class<?>) type).getGenericSuperclass());
        return Message.class.isAssignableFrom((Class<?>) type) ? (Class<?>) type : null;
    }

    static Object fieldOf(Object part, String name) throws Exception {
        Field field = part.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(part);
    }
}
