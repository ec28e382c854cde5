"""Nothing that a server counts is counted for nobody."""

from collections import Counter
from dataclasses import fields

import pytest

from trilith.net.grpc import GrpcStatistics
from trilith.net.http1 import HttpStatistics
from trilith.orchestration.engine.server_metrics import server_source
from trilith.wire.grpc_status import GrpcStatus

KEYS = {"responses": 418, "refused": "host", "outcomes": GrpcStatus.DATA_LOSS, "protocol_errors": "FRAME_SIZE_ERROR"}


def statistics(kind, first):
    """With another number in each field."""
    numbers = {field.name: first + at for at, field in enumerate(fields(kind))}
    return kind(**{name: {KEYS[name]: number} if name in KEYS else number for name, number in numbers.items()})


def scraped(http, grpc):
    families = server_source(lambda: http, lambda: grpc)()
    return [(family.name, labels, value) for family in families for labels, value in family.samples]


@pytest.mark.parametrize(("kind", "first"), [(HttpStatistics, 1000), (GrpcStatistics, 2000)])
def test_every_count_is_shown_once(kind, first):
    found = scraped(statistics(HttpStatistics, 1000), statistics(GrpcStatistics, 2000))
    shown = Counter(value for _, _, value in found)
    assert [field.name for at, field in enumerate(fields(kind)) if shown[first + at] != 1] == []


def test_reasons_and_statuses():
    found = scraped(statistics(HttpStatistics, 1000), statistics(GrpcStatistics, 2000))
    labels = {(name, labels) for name, labels, _ in found}
    assert {
        ("trilith_http_responses_total", ("418",)),
        ("trilith_grpc_responses_total", ("DATA_LOSS",)),
        ("trilith_refused_total", ("http", "host")),
        ("trilith_broken_off_total", ("grpc", "frame_size_error")),
        ("trilith_broken_off_total", ("http", "client_left")),
    } <= labels
