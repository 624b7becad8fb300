import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.admin.AdminUtils;
import org.apache.kafka.admin.BrokerMetadata;

/**
 * Places replicas as Kafka does. A line: brokers such as 1=rack,2=rack or 1,2, then partitions,
 * replication factor, start and first partition, all between blanks; the answer: the replicas of
 * each partition, or the name of the refusal.
 */
public class Placements {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            try {
                Map<Integer, List<Integer>> placed = AdminUtils.assignReplicasToBrokers(
                    brokers(words[0]), Integer.parseInt(words[1]), Integer.parseInt(words[2]),
                    Integer.parseInt(words[3]), Integer.parseInt(words[4]));
                System.out.println(new TreeMap<>(placed).values());
            } catch (RuntimeException refusal) {
                System.out.println(refusal.getClass().getSimpleName());
            }
        }
    }

    private static List<BrokerMetadata> brokers(String text) {
        List<BrokerMetadata> brokers = new ArrayList<>();
        for (String each : text.split(",")) {
            String[] parts = each.split("=");
            Optional<String> rack = parts.length > 1 ? Optional.of(parts[1]) : Optional.empty();
            brokers.add(new BrokerMetadata(Integer.parseInt(parts[0]), rack));
        }
        return brokers;
    }
}
