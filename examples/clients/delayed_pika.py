"""Publishes a message that arrives two seconds later, and receives it."""

import os
import time

import pika

url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672")
with pika.BlockingConnection(pika.URLParameters(url)) as connection:
    channel = connection.channel()
    channel.exchange_declare(
        "orders", "x-delayed-message", durable=True, arguments={"x-delayed-type": "topic"}
    )
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "orders", "hello.pika")

    channel.confirm_delivery()  # basic_publish returns when the broker has stored the message
    published = time.monotonic()
    channel.basic_publish(
        exchange="orders",
        routing_key="hello.pika",
        body="Hello from pika",
        properties=pika.BasicProperties(
            headers={"x-delay": 2000}, content_type="text/plain", delivery_mode=2
        ),
    )

    for method, properties, body in channel.consume(queue, auto_ack=True):
        print(f"{body.decode()}, after {time.monotonic() - published:.3f} s")
        break
