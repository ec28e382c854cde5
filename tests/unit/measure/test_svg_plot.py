import math
import xml.etree.ElementTree as ElementTree

from hypothesis import example, given, settings
from hypothesis import strategies as st

from trilith.measure.svg_plot import HEIGHT, WIDTH, Axis, Series, line_plot

figures = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, 1.0, 1e-9, 1e12])


@example([[(0.0, 5e-324)]], True)
@example([[(0.0, 5e-324)]], False)
@example([[(0.0, 1.0), (5e-324, 1.0)]], False)
@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.tuples(st.floats(-1e9, 1e9), figures.map(lambda y: y if abs(y) < 1e15 else math.inf)),
                         max_size=6), max_size=3), st.booleans())  # fmt: skip
def test_whatever_the_figures_are_a_drawing_comes_out_and_lies_within_it(lines, logarithmic):
    series = [Series(name=f"<{index}>", points=tuple(points), colour=index) for index, points in enumerate(lines)]
    drawn = line_plot("<&>", series, Axis(label="<x>"), Axis(label="&", logarithmic=logarithmic))
    root = ElementTree.fromstring(f"<div>{drawn}</div>")
    for line in root.iter("polyline"):
        for pair in line.get("points").split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT
    for tick in root.iter("text"):
        assert -1 <= float(tick.get("x")) <= WIDTH + 1


def test_ticks_are_round_and_few():
    drawn = line_plot("t", [Series(name="a", points=((0, 0), (10, 97)))], Axis(label="x"), Axis(label="y"))
    root = ElementTree.fromstring(f"<div>{drawn}</div>")
    texts = [tick.text for tick in root.iter("text") if tick.get("class") == "tick"]
    assert texts[:6] == ["0", "20", "40", "60", "80", "100"]
    assert len(texts) <= 14
