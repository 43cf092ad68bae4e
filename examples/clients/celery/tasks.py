"""Tasks that run later, and no worker holds them until then."""

import math
import os

from celery import Celery, Task
from celery.utils.time import maybe_make_aware
from kombu import Exchange, Queue


class Later(Task):
    """A task whose countdown or eta is waited for in the broker, whoever gives it: apply_async,
    retry, or autoretry_for. It is published to the exchange later, with the key of its queue."""

    def apply_async(self, args=None, kwargs=None, countdown=None, eta=None, **options):
        if eta:
            countdown = (maybe_make_aware(eta) - self.app.now()).total_seconds()
        if countdown and countdown > 0:
            options = self.app.amqp.router.route(options, self.name, args, kwargs, self)
            options.setdefault("routing_key", options["queue"].routing_key)
            options["exchange"] = "later"
            options["headers"] = {**(options.get("headers") or {}), "x-delay": math.ceil(countdown * 1000)}
        return super().apply_async(args, kwargs, **options)


url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672")
app = Celery("tasks", broker=url, task_cls=Later)
app.conf.broker_transport_options = {"confirm_publish": True}
app.conf.task_default_queue = "tasks"
app.conf.task_queues = [
    Queue("tasks", Exchange("orders", type="topic"), routing_key="tasks")
]


@app.task
def remind(order):
    print(f"order {order} was not paid", flush=True)


@app.task(bind=True, default_retry_delay=2)
def collect(self, order):
    if self.request.retries == 0:
        raise self.retry()
    print(f"order {order} was collected, attempt {self.request.retries + 1}", flush=True)


@app.task(bind=True, autoretry_for=(ConnectionError,), retry_kwargs={"countdown": 2})
def ship(self, order):
    if self.request.retries == 0:
        raise ConnectionError("the carrier does not answer")
    print(f"order {order} was shipped, attempt {self.request.retries + 1}", flush=True)
