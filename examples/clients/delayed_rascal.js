// Publishes a message that arrives two seconds later, and receives it.

const { BrokerAsPromised, withDefaultConfig } = require("rascal");

const config = {
  vhosts: {
    shop: {
      connection: { url: process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672" },
      exchanges: {
        orders: { type: "x-delayed-message", options: { arguments: { "x-delayed-type": "topic" } } },
      },
      queues: { hello: { assert: true, options: { exclusive: true, durable: false } } },
      bindings: ["orders[hello.rascal] -> hello"],
      subscriptions: { hello: { queue: "hello" } },
      publications: { hello: { exchange: "orders", routingKey: "hello.rascal" } },
    },
  },
};

async function main() {
  const broker = await BrokerAsPromised.create(withDefaultConfig(config));
  broker.on("error", console.error);
  const subscription = await broker.subscribe("hello");
  subscription.on("message", async (message, content, ackOrNack) => {
    console.log(`${content}, after ${((performance.now() - published) / 1000).toFixed(3)} s`);
    ackOrNack();
    await broker.shutdown();
  });

  const published = performance.now();
  await broker.publish("hello", "Hello from rascal", { options: { headers: { "x-delay": 2000 } } });
}

main();
