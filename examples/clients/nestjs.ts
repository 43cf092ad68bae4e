// Publishes a message that arrives two seconds later, and receives it.

import "reflect-metadata";
import { AmqpConnection, RabbitMQModule, RabbitSubscribe } from "@golevelup/nestjs-rabbitmq";
import { Injectable, Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";

@Injectable()
class Orders {
  @RabbitSubscribe({ exchange: "orders", routingKey: "hello.nestjs", queue: "hello.nestjs.orders" })
  expired(order: { text: string; published: number }) {
    console.log(`${order.text}, after ${(Date.now() - order.published) / 1000} s`);
  }
}

@Module({
  imports: [
    RabbitMQModule.forRoot({
      uri: process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672",
      exchanges: [
        { name: "orders", type: "x-delayed-message", options: { arguments: { "x-delayed-type": "topic" } } },
      ],
    }),
  ],
  providers: [Orders],
})
class Shop {}

async function main() {
  const app = await NestFactory.createApplicationContext(Shop, { logger: ["error", "warn"] });
  const order = { text: "Hello from NestJS", published: Date.now() };
  await app.get(AmqpConnection).publish("orders", "hello.nestjs", order, { headers: { "x-delay": 2000 } });
}

main();
