// Publishes a message that arrives two seconds later, and receives it.

const amqp = require("amqp-connection-manager");

const connection = amqp.connect([process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672"]);
let published;

const channel = connection.createChannel({
  setup: async (channel) => {
    await channel.assertExchange("orders", "x-delayed-message", { arguments: { "x-delayed-type": "topic" } });
    const { queue } = await channel.assertQueue("", { exclusive: true });
    await channel.bindQueue(queue, "orders", "hello.js");
    await channel.consume(queue, received, { noAck: true });
  },
});

function received(message) {
  console.log(`${message.content}, after ${((performance.now() - published) / 1000).toFixed(3)} s`);
  connection.close();
}

channel.waitForConnect().then(() => {
  published = performance.now();
  const properties = { headers: { "x-delay": 2000 }, contentType: "text/plain", persistent: true };
  return channel.publish("orders", "hello.js", Buffer.from("Hello from JavaScript"), properties); // confirmed
});
