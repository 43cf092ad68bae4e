"""Starts tasks: now, and later."""

from datetime import datetime, timedelta, timezone

from tasks import collect, remind, ship

remind.delay(41)
remind.apply_async([42], countdown=2)
remind.apply_async([43], eta=datetime.now(timezone.utc) + timedelta(seconds=2))
collect.delay(44)
ship.delay(45)
