"""Starts tasks: now, and later."""

from tasks import collect, later, remind

remind.delay(41)
remind.apply_async([42], **later(2))
collect.delay(43)
