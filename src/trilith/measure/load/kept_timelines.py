"""Timelines that were too long for a header: fetched after the load, from where the answers said.

Rule: fetching is no part of the measurement. The server keeps only the last ones, so the latest are asked for first.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Sequence
from typing import Final

from trilith.measure.load.recorder import KeptTimeline, TimelineSample
from trilith.measure.load.target import Target

_AT_MOST: Final = 64
_ANSWER_WITHIN_S: Final = 5.0


def fetch(target: Target, kept: Sequence[KeptTimeline]) -> list[TimelineSample]:
    """The timelines that the server still has, latest first. Blocks; a server that went away has none."""
    if not kept:
        return []
    connection: http.client.HTTPConnection
    if target.tls:
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(target.host, target.port, timeout=_ANSWER_WITHIN_S, context=context)
    else:
        connection = http.client.HTTPConnection(target.host, target.port, timeout=_ANSWER_WITHIN_S)
    found = []
    try:
        for place in reversed(kept[-_AT_MOST:]):
            connection.request("GET", place.path)
            response = connection.getresponse()
            body = response.read()
            if response.status == 200:
                found.append(TimelineSample(body, place.latency_s))
    except (OSError, http.client.HTTPException):
        return found  # the load has ended; what the server no longer gives is only missing from the breakdown
    finally:
        connection.close()
    return found
