// Publishes a message that arrives two seconds later, and receives it.

const amqp = require("amqplib");

async function main() {
  const connection = await amqp.connect(process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672");
  const channel = await connection.createConfirmChannel();
  const { queue } = await channel.assertQueue("", { exclusive: true });
  await channel.bindQueue(queue, "orders.delivery", "hello.js");

  const published = performance.now();
  const properties = { headers: { "x-delay": 2000 }, contentType: "text/plain", persistent: true };
  channel.publish("orders", "hello.js", Buffer.from("Hello from JavaScript"), properties);
  await channel.waitForConfirms(); // the broker has stored the message

  const message = await new Promise((received) => channel.consume(queue, received, { noAck: true }));
  console.log(`${message.content}, after ${((performance.now() - published) / 1000).toFixed(3)} s`);
  await connection.close();
}

main();
