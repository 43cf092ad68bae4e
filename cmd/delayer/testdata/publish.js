// Publishes until it is told to end, through one address after the other, and prints what was confirmed.

const amqp = require("amqplib");
const { setTimeout: sleep } = require("timers/promises");

const urls = process.argv.slice(2);
let number = 0;

async function publish(url) {
  const connection = await amqp.connect(url);
  const ended = new Promise((_, reject) => {
    connection.on("error", reject);
    connection.on("close", () => reject(new Error("closed")));
  });
  ended.catch(() => {});
  const channel = await connection.createConfirmChannel();
  channel.on("error", () => {});
  await channel.assertExchange("orders", "x-delayed-message", { arguments: { "x-delayed-type": "topic" } });
  for (;;) {
    const delay = 200 + Math.floor(Math.random() * 3800);
    const body = `node ${++number} ${Date.now()} ${delay}`;
    channel.publish("orders", "faults", Buffer.from(body), { headers: { "x-delay": delay }, persistent: true });
    await Promise.race([channel.waitForConfirms(), ended]);
    console.log(body);
    await sleep(10);
  }
}

(async () => {
  for (;;) {
    urls.push(urls.shift());
    await publish(urls[0]).catch((err) => console.error(err.message));
    await sleep(100);
  }
})();
