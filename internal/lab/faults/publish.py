"""Publishes what standard input asks for, one JSON object a line, and answers each with a line."""

import json
import sys
import time

import pika

url = sys.argv[1]
connection = channel = None


def connect(until):
    global connection, channel
    while True:
        try:
            connection = pika.BlockingConnection(pika.URLParameters(url))
            channel = connection.channel()
            channel.confirm_delivery()  # basic_publish returns when the broker has stored the message
            return
        except Exception:
            disconnect()
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def disconnect():
    global connection, channel
    try:
        connection.close()
    except Exception:
        pass  # it is lost already
    connection = channel = None


def publish(message):
    try:
        if channel is None:
            connect(time.monotonic() + message["seconds"])
    except Exception as e:
        return {"outcome": "not sent", "error": repr(e)}
    try:
        properties = pika.BasicProperties(headers=message["headers"], delivery_mode=2)
        channel.basic_publish(message["exchange"], message["key"], message["body"], properties)
    except Exception as e:  # also a refusal: what was lost on the way cannot be told from it
        disconnect()
        return {"outcome": "unknown", "error": repr(e)}
    return {"outcome": "confirmed"}


for line in sys.stdin:
    print(json.dumps(publish(json.loads(line))), flush=True)
