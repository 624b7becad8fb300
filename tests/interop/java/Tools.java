import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command line tools, one after the other in one JVM, as its start costs more than what they do.
 *
 * <p>Each line {"tool": class, "arguments": [...], "input": text} is answered with a line
 * {"status": exit status, "out": what was written to standard output, "err": to standard error}. The class
 * is written without its package, as tools move to other packages from release to release.
 *
 * <p>A tool that ends the JVM ends itself only, and what it wants to be done then is done. Scala keeps the
 * streams that it finds at first, so there is one stream of each kind for all tools, whose content is taken
 * away after each.
 */
public class Tools {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<String> PACKAGES = List.of(
            "org.apache.kafka.tools.",
            "org.apache.kafka.tools.consumer.",
            "org.apache.kafka.tools.consumer.group.",
            "org.apache.kafka.tools.reassign.",
            "kafka.admin.",
            "kafka.tools.");

    /** Thrown in place of the end of the JVM. */
    private static class Ended extends Error {
        Ended(int status, String message) {
            super(status + (message == null ? "" : " " + message), null, false, false);
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, "UTF-8"));
        System.setErr(new PrintStream(err, true, "UTF-8"));
        List<Runnable> hooks = new ArrayList<>();
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            int status = run(JSON.readTree(line));
            hooks.forEach(Runnable::run);
            hooks.clear();
            System.out.flush();
            System.err.flush();
            answers.println(JSON.createObjectNode()
                    .put("status", status).put("out", out.toString("UTF-8")).put("err", err.toString("UTF-8")));
            out.reset();
            err.reset();
        }
        System.exit(0); // whatever threads a tool has left behind
    }

    private static int run(JsonNode asked) throws Exception {
        List<String> arguments = new ArrayList<>();
        asked.get("arguments").forEach(each -> arguments.add(each.asText()));
        // A tool that catches everything tries to end once more: what it wanted first is what counts.
        AtomicReference<Integer> status = new AtomicReference<>();
        Exit.Procedure end = (code, message) -> {
            status.compareAndSet(null, code);
            throw new Ended(code, message);
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        InputStream input = System.in;
        System.setIn(new ByteArrayInputStream(asked.path("input").asText("").getBytes("UTF-8")));
        try {
            tool(asked.get("tool").asText())
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (InvocationTargetException failure) {
            if (!(failure.getCause() instanceof Ended)) {
                failure.getCause().printStackTrace();
                status.compareAndSet(null, 1);
            }
        } finally {
            System.setIn(input);
        }
        return status.get() == null ? 0 : status.get();
    }

    private static Class<?> tool(String name) throws ClassNotFoundException {
        for (String each : PACKAGES) {
            try {
                return Class.forName(each + name);
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }
}
