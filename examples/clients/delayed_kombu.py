"""Publishes a message that arrives two seconds later, and receives it."""

import os
import time

from kombu import Connection, Exchange, Queue

url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672")
orders = Exchange("orders", type="x-delayed-message", arguments={"x-delayed-type": "topic"})
queue = Queue("", orders, routing_key="hello.kombu", exclusive=True)


def received(body, message):
    print(f"{body}, after {time.monotonic() - published:.3f} s")


with Connection(url, transport_options={"confirm_publish": True}) as connection:
    with connection.Consumer(queue, callbacks=[received], no_ack=True):
        published = time.monotonic()
        connection.Producer().publish(  # returns when the broker has stored the message
            "Hello from kombu",
            exchange="orders",
            routing_key="hello.kombu",
            headers={"x-delay": 2000},
        )
        connection.drain_events()
