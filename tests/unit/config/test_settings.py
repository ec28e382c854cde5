import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.config import Settings, merged, path_steps, read_settings, setting_path, settings_by_path, settings_of
from trilith.errors import InvalidConfig, UnknownReference


def test_words_stand_before_the_file_and_leave_the_rest_of_it(tmp_path):
    file = tmp_path / "trilith.yaml"
    file.write_text("services: {A: {replicas: 2, read: {max_batch: 4, timeout_s: 5}}}\nmodels: {m: {instances: 1}}\n")
    found = read_settings(file, ["A.read.max_batch=8", "models.m.session.intra_op_threads=2", "B.cpu=null"])
    assert found == Settings(
        services={"A": {"replicas": 2, "read": {"max_batch": 8, "timeout_s": 5}}, "B": {"cpu": None}},
        models={"m": {"instances": 1, "session": {"intra_op_threads": 2}}},
    )


def test_names_with_dots_and_services_with_the_names_of_sections():
    assert settings_of({'models."v1.5".instances': 2, "services.models.replicas": 3}) == Settings(
        services={"models": {"replicas": 3}}, models={"v1.5": {"instances": 2}}
    )


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("A.replicas", "expected PATH=VALUE"),
        ("=2", "expected PATH=VALUE"),
        ("A=2", "says whose setting it is and not which; expected a path like NAME.replicas"),
        ("models.m=2", "expected a path like models.NAME.instances"),
        ("A..b=2", "expected names with dots between them"),
        ("A.b.=2", "expected names with dots between them"),
        ('A."b=2', "expected names with dots between them"),
        ("A.b=[1", "--set A.b: line 1"),
    ],
)
def test_words_that_are_none(word, said):
    with pytest.raises(InvalidConfig) as raised:
        read_settings(None, [word])
    assert said in raised.value.message


def test_what_excludes_each_other_is_refused():
    with pytest.raises(InvalidConfig, match="is said twice"):
        read_settings(None, ["A.b=1", "A.b=2"])
    for words in (["A.replicas=2", "services.A.replicas=3"], ["models.m.pure=1", 'models."m".pure=1']):
        with pytest.raises(InvalidConfig, match="is said twice, the other time as"):
            read_settings(None, words)
    for words in (["A.b=1", "A.b.c=2"], ["A.b.c=1", "A.b=2"], ["A.b={c: 1}", "A.b.c=2"], ["A.b.c=1", "A.b={d: 1}"]):
        with pytest.raises(InvalidConfig, match="another setting"):
            read_settings(None, words)


def test_a_file_with_another_key_or_none_at_all(tmp_path):
    file = tmp_path / "trilith.yaml"
    file.write_text("service: {A: {replicas: 2}}\n")
    with pytest.raises(InvalidConfig, match="did you mean 'services'"):
        read_settings(file, [])
    with pytest.raises(UnknownReference, match="cannot be read"):
        read_settings(tmp_path / "absent.yaml", [])


odd = st.text('ab.= "\n\u00a0', min_size=1, max_size=4)
steps = odd | st.text(min_size=1) | st.sampled_from(["models", "services"])


@given(st.sampled_from(["services", "models"]), st.lists(steps, min_size=2, max_size=4))
def test_a_path_says_what_it_was_made_of(section, rest):
    path = setting_path([section, *rest])
    assert path_steps(path) == (section, *rest)
    assert read_settings(None, [f"{path}='a=b'"]) == settings_of({path: "a=b"})


values = st.recursive(
    st.none() | st.integers(), lambda below: st.dictionaries(steps | st.integers(), below, max_size=2)
)
sections = st.dictionaries(steps, st.dictionaries(steps, values, min_size=1, max_size=2), max_size=2)


@settings(max_examples=40)
@given(sections, sections)
def test_settings_are_what_their_paths_say(services, models):
    whole = Settings(services=services, models=models)
    assert settings_of(settings_by_path(whole)) == whole


def test_what_is_put_over_a_mapping_replaces_what_is_none():
    assert merged({"a": 1, "b": {"c": 2}}, {"a": {"x": 3}, "b": {"d": 4}}) == {"a": {"x": 3}, "b": {"c": 2, "d": 4}}


@pytest.mark.parametrize("value", ["1e400", "-.inf", ".nan", "[1, .inf]", "{y: .inf}"])
def test_numbers_are_finite(value):
    with pytest.raises(InvalidConfig, match=r"services.A.x.*: must be a finite number"):
        read_settings(None, [f"A.x={value}"])
