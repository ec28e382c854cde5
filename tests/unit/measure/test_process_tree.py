import pytest

from trilith.measure.process_tree import parse_stat


def stat_line(pid, name, parent, session, ticks):
    user, system, child_user, child_system = ticks
    fields = (
        f"S {parent} {pid} {session} 0 -1 4194304 1 2 3 4 {user} {system} {child_user} {child_system} 20 0 1 0 77 1000"
    )
    return f"{pid} ({name}) {fields}\n"


@pytest.mark.parametrize("name", ["python", "a b", ") 1 2 (", "((", "ray::Actor(x)"])
def test_any_program_name_is_read_past(name):
    sample = parse_stat(stat_line(42, name, 7, 5, (100, 50, 20, 30)), 100)
    assert (sample.pid, sample.parent, sample.session, sample.start_ticks) == (42, 7, 5, 77)
    assert sample.cpu_s == pytest.approx(2.0)


@pytest.mark.parametrize("line", ["", "42", "42 python S 1", "42 (python) S 1 2 3", "x (python) " + "1 " * 30])
def test_a_line_of_another_form_is_refused(line):
    with pytest.raises(ValueError, match=r"stat|invalid literal"):
        parse_stat(line, 100)
