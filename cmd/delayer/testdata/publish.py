"""Publishes until it is told to end, through one address after the other, and prints what was confirmed."""

import random
import sys
import time

import pika

number, urls = 0, sys.argv[1:]
while True:
    try:
        urls = urls[1:] + urls[:1]
        with pika.BlockingConnection(pika.URLParameters(urls[0])) as connection:
            channel = connection.channel()
            arguments = {"x-delayed-type": "topic"}
            channel.exchange_declare("orders", "x-delayed-message", durable=True, arguments=arguments)
            channel.confirm_delivery()
            while True:
                number += 1
                delay = random.randint(200, 4000)
                body = f"python {number} {time.time_ns() // 1_000_000} {delay}"
                properties = pika.BasicProperties(headers={"x-delay": delay}, delivery_mode=2)
                channel.basic_publish("orders", "faults", body.encode(), properties)
                print(body, flush=True)
                time.sleep(0.01)
    except Exception as e:
        print(repr(e), file=sys.stderr, flush=True)
        time.sleep(0.1)
