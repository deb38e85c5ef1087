import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Runs transactions of Kafka's producer. The arguments are the bootstrap servers and the transactional id. Commands are
 * lines of stdin with fields separated by spaces; each is acknowledged by a line:
 * begin
 * send topic partition value
 * offset group topic partition offset
 * commit
 * abort
 */
public class TransactionDriver {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> configs = Map.of(
            "bootstrap.servers", arguments[0], "transactional.id", arguments[1], "transaction.timeout.ms", 120000);
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var producer = new KafkaProducer<>(configs, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                run(producer, line.split(" "));
                System.out.println(line);
                System.out.flush();
            }
        }
    }

    private static void run(KafkaProducer<String, String> producer, String[] fields) throws Exception {
        switch (fields[0]) {
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(
                new ProducerRecord<>(fields[1], Integer.parseInt(fields[2]), null, fields[3])).get();
            case "offset" -> producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(fields[2], Integer.parseInt(fields[3])),
                    new OffsetAndMetadata(Long.parseLong(fields[4]))),
                new ConsumerGroupMetadata(fields[1]));
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> throw new IllegalArgumentException(fields[0]);
        }
    }
}
