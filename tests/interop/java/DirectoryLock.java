import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.kafka.server.util.FileLock;

/** Takes and gives back Kafka's own lock of a log directory, as it is told: take, give. */
public class DirectoryLock {
    public static void main(String[] arguments) throws Exception {
        FileLock lock = new FileLock(new File(arguments[0], ".lock"));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.equals("take")) {
                System.out.println(lock.tryLock() ? "taken" : "refused");
            } else {
                lock.unlock();
                System.out.println("given");
            }
        }
    }
}
