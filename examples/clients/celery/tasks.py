"""Tasks that run later, and no worker holds them until then."""

import os

from celery import Celery
from kombu import Exchange, Queue

app = Celery("tasks", broker=os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672"))
app.conf.broker_transport_options = {"confirm_publish": True}
app.conf.task_default_queue = "tasks"
app.conf.task_queues = [
    Queue("tasks", Exchange("orders.delivery", type="topic"), routing_key="tasks")
]


def later(seconds):
    """What apply_async and retry are given so that a task comes after some time."""
    return {
        "exchange": "orders",
        "routing_key": "tasks",
        "headers": {"x-delay": int(seconds * 1000)},
    }


@app.task
def remind(order):
    print(f"order {order} was not paid", flush=True)


@app.task(bind=True)
def collect(self, order):
    if self.request.retries == 0:
        raise self.retry(countdown=0, **later(2))  # countdown=0: the worker must not wait too
    print(f"order {order} was collected, attempt {self.request.retries + 1}", flush=True)
