"""Damaged models of LightGBM: what would end the process, or never end, is an error that says what is wrong."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from backend_cases import need
from backend_models import table, training_set

from trilith.errors import SetupError
from trilith.runtime import Batch, ModelFile, ModelSpec
from trilith.runtime.backends.lightgbm import LightgbmBackend


@pytest.fixture(scope="module", autouse=True)
def lightgbm():
    need("lightgbm", "lightgbm")
    import lightgbm

    return lightgbm


@pytest.fixture(scope="module")
def binary(lightgbm):
    """A model of two classes, four trees."""
    options = {"objective": "binary", "verbose": -1, "num_threads": 1}
    return lightgbm.train(options, lightgbm.Dataset(*training_set(2)), 4).model_to_string().encode()


def load(path):
    backend = LightgbmBackend(ModelFile(model="m", version=1, path=path, spec=ModelSpec(name="m", backend="lightgbm")))
    backend.load()
    return backend


DAMAGE = {
    "a key": (b"leaf_value=", b"leaf_valu=", "the header says"),
    "a key of the same length": (b"leaf_value=", b"leaf_valux=", "leaf_value has 0 numbers"),
    "no number": (b"threshold=0", b"threshold=x", "threshold is not made of numbers"),
    "no leaves": (b"num_leaves=", b"num_leavex=", "num_leaves has 0 numbers"),
    "no integer": (b"num_cat=0", b"num_cat=.", "num_cat is not made of numbers"),
    "a cycle": (b"left_child=1", b"left_child=0", "left_child of node 0 is 0, which is no leaf and no later node"),
    "a feature": (b"max_feature_idx=3", b"max_feature_idx=0", "there are 1 features"),
    "a tree": (b"Tree=1\n", b"Tree=9\n", "tree 1 does not begin, or end, where the header says"),
    "an empty line": (b"2\nleft_child", b"\n\nleft_child", "a line is ''"),
    "an odd line": (b"\nleft_child=", b"\nleft_child ", "a line is 'left_child"),
    "more trees": (b"tree_sizes=", b"tree_sizes=1 ", "tree 0 does not begin, or end"),
    "fewer trees": (b"end of trees", b"x\nend of trees", "there is more after the last of 4 trees"),
    "no classes": (b"num_class=1", b"num_class=0", "num_class is 0"),
    "large": (b"leaf_count=", b"leaf_count=9999999999 ", "the header says"),
    "parameters": (b"[boosting: gbdt]", b"[boosting", "a line of its parameters is"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_file_is_not_given_to_lightgbm_which_would_end_the_process(binary, tmp_path, what):
    before, after, says = DAMAGE[what]
    assert before in binary
    (tmp_path / "model.txt").write_bytes(binary.replace(before, after, 1))
    with pytest.raises(SetupError, match=says):
        load(tmp_path / "model.txt")


def categorical():
    """A booster that splits by sets of categories, as text."""
    import lightgbm

    x = table(300, dtype=np.float64)
    x[:, 3] = np.arange(300) % 9
    options = {"verbose": -1, "num_threads": 1, "cat_smooth": 0, "min_data_per_group": 1, "cat_l2": 0, "num_leaves": 5}
    data = lightgbm.Dataset(x, x[:, 0] + 5 * (x[:, 3] % 2), categorical_feature=[3])
    trained = lightgbm.train(options, data, 2)
    text = trained.model_to_string()
    assert "\nnum_cat=1\n" in text
    return trained, text


def test_sets_of_categories(tmp_path):
    model, text = categorical()
    (tmp_path / "model.txt").write_text(text)
    x = table(6)
    x[:, 3] = range(6)
    backend = load(tmp_path / "model.txt")
    (found,) = backend.run(Batch(inputs={"input__0": x}, outputs=("output__0",), rows=6, requests=[]))
    np.testing.assert_allclose(found[:, 0], model.predict(x))
    for before, after, says in (
        ("num_cat=1", "num_cat=0", "outside of the 0 sets of categories"),
        ("cat_boundaries=0 1", "cat_boundaries=1 0", "cat_boundaries do not ascend"),
        ("cat_boundaries=0 1", "cat_boundaries=0 3", "cat_threshold has 1 numbers instead of 3"),
    ):
        (tmp_path / "model.txt").write_text(text.replace(before, after, 1))
        with pytest.raises(SetupError, match=says):
            load(tmp_path / "model.txt")


def test_damage_at_random_is_refused_or_harmless(tmp_path):
    """In a process of its own, because LightGBM ends the process over what it does not like."""
    _, text = categorical()
    (tmp_path / "model.txt").write_text(text)
    code = textwrap.dedent("""
        import pathlib, random, re, sys
        import lightgbm, numpy
        from trilith.runtime.backends.lightgbm_text import find_damage

        whole = pathlib.Path(sys.argv[1]).read_text()
        random.seed(1)
        refused = 0
        for _ in range(400):
            text = whole
            for _ in range(random.choice([1, 1, 2, 4])):
                at = random.randrange(len(text))
                numbers = list(re.finditer(r"[0-9]+", text))
                number = random.choice(numbers)
                text = random.choice([
                    text[:at] + random.choice("0123456789-. e\\nxn=") + text[at + 1 :],
                    text[:at] + text[at + random.randrange(1, 40) :],
                    text[: number.start()] + random.choice(["0", "5", "-7", "99", "9" * 9]) + text[number.end() :],
                ])
            if find_damage(text):
                refused += 1
                continue
            try:
                model = lightgbm.Booster(model_str=text)
                model.predict(numpy.full((4, model.num_feature()), 3.0), num_threads=1)
            except (lightgbm.basic.LightGBMError, ValueError):
                pass
        print(refused)
    """)
    command = [sys.executable, "-c", code, str(tmp_path / "model.txt")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert 100 < int(done.stdout.split()[-1]) < 400
