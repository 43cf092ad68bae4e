import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** Publishes a message that arrives two seconds later, and receives it. */
public class Delayed {
    public static void main(String[] args) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672"));
        try (Connection connection = factory.newConnection();
                Channel channel = connection.createChannel()) {
            channel.exchangeDeclare("orders", "x-delayed-message", true, false, Map.of("x-delayed-type", "topic"));
            String queue = channel.queueDeclare().getQueue();
            channel.queueBind(queue, "orders", "hello.java");
            CompletableFuture<byte[]> arrived = new CompletableFuture<>();
            channel.basicConsume(
                    queue, true, (tag, message) -> arrived.complete(message.getBody()), tag -> {});

            channel.confirmSelect();
            long published = System.nanoTime();
            BasicProperties properties = new BasicProperties.Builder()
                    .headers(Map.of("x-delay", 2000)).contentType("text/plain").deliveryMode(2).build();
            channel.basicPublish("orders", "hello.java", properties, "Hello from Java".getBytes());
            channel.waitForConfirmsOrDie(); // the broker has stored the message

            String body = new String(arrived.get());
            System.out.printf("%s, after %.3f s%n", body, (System.nanoTime() - published) / 1e9);
        }
    }
}
