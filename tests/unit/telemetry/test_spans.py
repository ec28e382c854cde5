"""Which calls are traced, and what becomes of their timelines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core.data_options import checked_endpoint
from trilith.core.timeline import Timeline
from trilith.errors import InvalidConfig
from trilith.orchestration.engine.otlp_spans import trace_request
from trilith.telemetry import Sampler
from trilith.telemetry.spans import read_traceparent

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
NONE = ("", "", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"00-{TRACE}-{PARENT}-01", (TRACE, PARENT, True)),
        (f"00-{TRACE}-{PARENT}-00", (TRACE, PARENT, False)),
        (f"00-{TRACE}-{PARENT}-03", (TRACE, PARENT, True)),
        (f"cc-{TRACE}-{PARENT}-01-what-is-to-come", (TRACE, PARENT, True)),
        (f"00-{TRACE}-{PARENT}-01-more", NONE),
        (f"ff-{TRACE}-{PARENT}-01", NONE),
        (f"00-{'0' * 32}-{PARENT}-01", NONE),
        (f"00-{TRACE}-{'0' * 16}-01", NONE),
        (f"00-{TRACE.upper()}-{PARENT}-01", NONE),
        ("", NONE),
        ("00-1-2-01", NONE),
    ],
)
def test_traceparent(text, expected):
    assert read_traceparent(text) == expected


@given(st.text())
def test_any_text_is_read(text):
    assert len(read_traceparent(text)) == 3


def test_who_says_so_is_believed_and_others_are_sampled():
    for part in (0.0, 1.0):
        assert Sampler(part).begin(f"00-{TRACE}-{PARENT}-01", "r").trace_id == TRACE
        assert Sampler(part).begin(f"00-{TRACE}-{PARENT}-00", "r") is None
    assert Sampler(0.0).begin("", "r") is None
    span = Sampler(1.0).begin("nonsense", "r")
    assert (len(span.trace_id), len(span.span_id), span.parent_id) == (32, 16, "")
    assert span.header == (b"traceresponse", f"00-{span.trace_id}-{span.span_id}-01".encode())


def tree():
    root = Timeline("gateway Ocr.read", 3, [("received", 10.0), ("started", 0.0), ("answered", 12.0)])
    service = Timeline("service Ocr.read", 2, [("received", 10.5), ("encoded", 11.5)])
    call = service.child("call Recognizer.read", 3)
    call.stamps += [("sent", 10.6), ("answered", 11.4)]
    call.adopt(Timeline("gateway Recognizer.read", 3, [("received", 10.7), ("answered", 11.3)]))
    service.child("model ocr-det", 1).stamps.append(("queued", 10.6))  # one stamp has no length
    root.adopt(service)
    return root


def test_a_timeline_becomes_spans():
    span = Sampler(1.0).begin(f"00-{TRACE}-{PARENT}-01", "request-1", identity="ann")
    span.timeline = tree()
    found = json.loads(json.dumps(trace_request([(span, "queue_full", "as many wait")], 1000.0, "1.2.3")))
    spans, service_of = {}, {}
    for resource in found["resourceSpans"]:
        [name] = resource["resource"]["attributes"]
        for each in resource["scopeSpans"][0]["spans"]:
            key = next(a["value"]["stringValue"] for a in each["attributes"] if a["key"] == "trilith.part")
            spans[key, each["name"]] = each
            service_of[key, each["name"]] = name["value"]["stringValue"]
    assert len({each["spanId"] for each in spans.values()}) == len(spans) == 4
    assert {each["traceId"] for each in spans.values()} == {TRACE}
    root, service = spans["gateway", "Ocr.read"], spans["service", "Ocr.read"]
    call, nested = spans["call", "Recognizer.read"], spans["gateway", "Recognizer.read"]
    assert [root["parentSpanId"], service["parentSpanId"]] == [PARENT, root["spanId"]]
    assert [call["parentSpanId"], nested["parentSpanId"]] == [service["spanId"], call["spanId"]]
    assert service["spanId"] == span.service_span_id in span.parent_of_service.split("-")
    assert (root["startTimeUnixNano"], root["endTimeUnixNano"]) == ("1010000000000", "1012000000000")
    assert [event["name"] for event in root["events"]] == ["received", "answered"]
    assert [root["kind"], service["kind"], call["kind"]] == [2, 1, 3]
    assert root["status"] == {"code": 2, "message": "as many wait"}
    assert {"key": "trilith.request_id", "value": {"stringValue": "request-1"}} in root["attributes"]
    assert service_of["gateway", "Recognizer.read"] == "Recognizer"


@pytest.mark.parametrize("url", ["http://127.0.0.1:4318", "https://collector.example/v1/traces", "http://[::1]:4318"])
def test_addresses_of_collectors(url):
    assert checked_endpoint(url, "--x") == url


@pytest.mark.parametrize(
    "url", ["127.0.0.1:4318", "ftp://a", "http://", "http://a:99999", "http://a b", "http://a?x=1"]
)
def test_what_is_none(url):
    with pytest.raises(InvalidConfig, match="--x takes the address of a collector"):
        checked_endpoint(url, "--x")
