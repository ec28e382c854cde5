import re
from html.parser import HTMLParser

from trilith.measure import BenchReport, LevelResult, Slo, to_html
from trilith.measure.load import GeneratorLoad, LoadOutcome, Recorder

VOID = {"meta", "line", "circle", "polyline"}


class Checked(HTMLParser):
    """Fails on what is not closed in order, and keeps what would be fetched."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.fetched = []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        self.fetched += [value for name, value in attributes if name in ("src", "href")]

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page(levels=2, url="http://h/<p>", **more):
    results = []
    for number in range(levels):
        recorder = Recorder(started_at=10.0, slice_s=0.5, slo_s=0.004, offered=60)
        for index in range(60):
            recorder.success(0.001 * (1 + index % 5), 10.0 + index / 20)
        recorder.error("status <503>", 11.0)
        load = GeneratorLoad(cpu_share=0.2, wait_share=0.0)
        outcome = LoadOutcome(recorder=recorder, elapsed_s=3.0, generator=load, server_cpu_s=0.1, interrupted=False)
        rate = 20.0 * number
        results.append(LevelResult.of(outcome, 4, name=f"{number}&", slo=Slo(limit_s=0.004), rate_per_s=rate))
    return to_html(
        BenchReport(url=url, method="GET", bodies=(), conditions={"cpu": "<x>"}, levels=tuple(results), **more)
    )


def test_a_page_is_whole_and_fetches_nothing():
    text = page(slo=Slo(limit_s=0.004))
    checked = Checked()
    checked.feed(text)
    assert checked.open == []
    assert checked.fetched == []
    assert not re.search(r"<script|@import|url\(", text)
    assert text.count("<svg") == 6
    assert "<p>" not in text.split("<style>")[0]
    assert "&lt;503&gt;" in text
    assert "NOT kept" in text


def test_what_was_interrupted_before_anything_was_measured_is_a_page_too():
    text = page(levels=0, interrupted=True)
    checked = Checked()
    checked.feed(text)
    assert checked.open == []
    assert "Nothing was measured" in text
    assert "Interrupted" in text
