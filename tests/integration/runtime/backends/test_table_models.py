"""scikit-learn, XGBoost, LightGBM and Triton's fil: trust, outputs, datatypes, classes."""

import pickle
import threading

import numpy as np
import pytest
from backend_cases import need
from backend_models import booster, table, training_set, twice

from trilith.core.tensor import DataType
from trilith.errors import InvalidConfig, SetupError
from trilith.runtime import Batch, ModelFile, ModelSpec
from trilith.runtime.backends import builtin_backends
from trilith.runtime.spec import DeclaredTensor, ModelSource


def load(backend, path, **fields):
    spec = ModelSpec(name="m", backend=backend, **fields)
    made = builtin_backends()[backend].create(ModelFile(model="m", version=1, path=path, spec=spec))
    return made, made.load()


def run(backend, x, *outputs, name="input__0"):
    found = backend.run(Batch(inputs={name: x}, outputs=outputs, rows=len(x), requests=[]))
    return found[0] if len(outputs) == 1 else found


@pytest.fixture(scope="module")
def sklearn():
    need("skops", "sklearn")
    import sklearn

    return sklearn


class Bomb:
    """Its pickle leaves a trace when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("name", ["model.pkl", "model.joblib"])
def test_a_pickle_is_not_read_unasked(sklearn, tmp_path, name):
    (tmp_path / name).write_bytes(pickle.dumps(Bomb(str(tmp_path / "trace"))))
    with pytest.raises(InvalidConfig, match="allow_pickle: true"):
        load("sklearn", tmp_path / name)
    with pytest.raises(InvalidConfig, match="only read from the model's own folder"):
        load("sklearn", tmp_path / name, parameters={"allow_pickle": "true"}, source=ModelSource(reference="x.pkl"))
    assert not (tmp_path / "trace").exists()


def test_an_object_that_is_no_estimator(sklearn, tmp_path):
    (tmp_path / "model.pkl").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(SetupError, match="an object of type dict, which neither predicts nor transforms"):
        load("sklearn", tmp_path / "model.pkl", parameters={"allow_pickle": "true"})
    (tmp_path / "model.bin").write_bytes(b"x")
    with pytest.raises(SetupError, match=r"expected .skops, .joblib"):
        load("sklearn", tmp_path / "model.bin", filename="model.bin")


def test_skops_types_must_be_trusted_by_name(sklearn, tmp_path):
    import skops.io
    from sklearn.preprocessing import FunctionTransformer

    path = tmp_path / "model.skops"
    skops.io.dump(FunctionTransformer(twice).fit(np.zeros((1, 4))), path)
    inputs = (DeclaredTensor(name="x", datatype=DataType.FP32, dims=(4,)),)
    with pytest.raises(InvalidConfig, match=r"not known to be harmless: backend_models\.twice"):
        load("sklearn", path, inputs=inputs)
    parameters = {"trusted_types": "some.Other, backend_models.twice"}
    backend, signature = load("sklearn", path, inputs=inputs, parameters=parameters)
    assert [(spec.name, spec.shape) for spec in signature.outputs] == [("transform", (-1, 4))]
    np.testing.assert_array_equal(run(backend, table(3), "transform", name="x"), table(3) * 2)


def test_a_pipeline_of_texts_says_classes_as_text(sklearn, tmp_path):
    import skops.io
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    texts = ["good book", "good film", "bad book", "bad film"]
    pipeline = make_pipeline(CountVectorizer(), MultinomialNB()).fit(texts, ["gut", "gut", "übel", "übel"])
    skops.io.dump(pipeline, tmp_path / "model.skops")
    with pytest.raises(SetupError, match="does not say how many columns it takes"):
        load("sklearn", tmp_path / "model.skops")
    told = (DeclaredTensor(name="text", datatype=DataType.BYTES, dims=(1,)),)
    backend, signature = load("sklearn", tmp_path / "model.skops", inputs=told)
    assert [(spec.name, spec.datatype, spec.shape) for spec in signature.outputs] == [
        ("predict", DataType.BYTES, (-1, 1)),
        ("predict_proba", DataType.FP64, (-1, 2)),
    ]
    x = np.array([[b"good"], [b"bad"], [b"bad bad"]], object)
    words, probabilities = run(backend, x, "predict", "predict_proba", name="text")
    assert words.tolist() == [[b"gut"], ["übel".encode()], ["übel".encode()]]
    np.testing.assert_allclose(probabilities, pipeline.predict_proba(["good", "bad", "bad bad"]))


def test_methods_are_offered_when_they_are_declared_and_numbers_become_what_is_declared(sklearn, tmp_path):
    import skops.io
    from sklearn.linear_model import LogisticRegression

    estimator = LogisticRegression().fit(*training_set(2))
    skops.io.dump(estimator, tmp_path / "model.skops")
    x = table(5)
    outputs = (
        DeclaredTensor(name="decision_function", datatype=DataType.FP32, dims=(1,)),
        DeclaredTensor(name="predict", datatype=DataType.INT32, dims=(1,)),
    )
    inputs = (DeclaredTensor(name="x", datatype=DataType.FP32, dims=(4,)),)
    backend, signature = load("sklearn", tmp_path / "model.skops", inputs=inputs, outputs=outputs)
    assert [spec.datatype for spec in signature.outputs] == [DataType.FP32, DataType.INT32]
    scores, classes = run(backend, x, "decision_function", "predict", name="x")
    assert (scores.dtype, classes.dtype) == (np.float32, np.int32)
    np.testing.assert_allclose(scores[:, 0], estimator.decision_function(x), rtol=1e-5)
    with pytest.raises(InvalidConfig, match="unexpected output 'inverse'"):
        load("sklearn", tmp_path / "model.skops", outputs=(*outputs, DeclaredTensor(name="inverse")))
    with pytest.raises(InvalidConfig, match="takes one table"):
        load("sklearn", tmp_path / "model.skops", inputs=(*inputs, DeclaredTensor(name="z")))


def test_a_forest_starts_no_threads_of_its_own(sklearn, tmp_path):
    import joblib
    from sklearn.ensemble import RandomForestClassifier

    joblib.dump(RandomForestClassifier(2, n_jobs=-1).fit(*training_set(2)), tmp_path / "model.joblib")
    backend, _ = load("sklearn", tmp_path / "model.joblib", parameters={"allow_pickle": "yes"})
    backend.enter_thread()
    before = threading.active_count()
    x = table(3)
    for _ in range(3):
        assert run(backend, x, "predict").shape == (3, 1)
    assert threading.active_count() == before


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Boosters of XGBoost and LightGBM on disk, by name, with what they say of `table(6)`."""
    need("xgboost", "xgboost")
    need("lightgbm", "lightgbm")
    import lightgbm

    folder = tmp_path_factory.mktemp("trained")
    found = {}
    for name, options in {
        "binary": {"objective": "binary:logistic"},
        "multi": {"objective": "multi:softprob", "num_class": 3},
        "softmax": {"objective": "multi:softmax", "num_class": 3},
        "regression": {"objective": "reg:squarederror"},
        "linear": {"objective": "reg:squarederror", "booster": "gblinear"},
    }.items():
        model = booster(**options)
        model.save_model(folder / f"{name}.json")
        import xgboost

        found[name] = (folder / f"{name}.json", model.predict(xgboost.DMatrix(table(6))))
    for name, options in {"binary": {}, "multiclass": {"num_class": 3}, "regression": {}}.items():
        x, y = training_set(options.get("num_class", 2))
        options = {"objective": name, "verbose": -1, "num_threads": 1, **options}
        model = lightgbm.train(options, lightgbm.Dataset(x, y), 4)
        model.save_model(folder / f"{name}.txt")
        found[f"lightgbm-{name}"] = (folder / f"{name}.txt", model.predict(table(6)))
    return found


def backend_of(path):
    return "lightgbm" if path.suffix == ".txt" else "xgboost"


@pytest.mark.parametrize("name", ["binary", "multi", "softmax", "lightgbm-binary", "lightgbm-multiclass"])
def test_scores_and_classes(trained, name):
    path, scores = trained[name]
    backend, _ = load(backend_of(path), path)
    given = run(backend, table(6), "output__0")
    np.testing.assert_allclose(given.squeeze(), scores, rtol=1e-5)
    backend, signature = load(backend_of(path), path, parameters={"output_class": "true", "threshold": "0.4"})
    expected = scores.argmax(1) if scores.ndim == 2 else scores if name == "softmax" else scores > 0.4
    assert signature.outputs[0].datatype is DataType.INT64
    np.testing.assert_array_equal(run(backend, table(6), "output__0")[:, 0], expected)
    both = {"output_class": "true", "predict_proba": "true"}
    np.testing.assert_allclose(run(load(backend_of(path), path, parameters=both)[0], table(6), "output__0"), given)


def test_two_columns_when_two_are_declared(trained):
    for path, scores in (trained["binary"], trained["lightgbm-binary"]):
        outputs = (DeclaredTensor(name="probabilities", dims=(2,)),)
        backend, signature = load(backend_of(path), path, outputs=outputs)
        assert [(spec.name, spec.shape) for spec in signature.outputs] == [("probabilities", (-1, 2))]
        np.testing.assert_allclose(
            run(backend, table(6), "probabilities"), np.stack([1 - scores, scores], 1), rtol=1e-4
        )


def test_what_is_no_classifier_has_no_classes(trained):
    for name in ("regression", "linear", "lightgbm-regression"):
        path, scores = trained[name]
        with pytest.raises(InvalidConfig, match="no classifier"):
            load(backend_of(path), path, parameters={"output_class": "true"})
        backend, _ = load(backend_of(path), path)
        np.testing.assert_allclose(run(backend, table(6), "output__0")[:, 0], scores, rtol=1e-4)


@pytest.mark.parametrize("datatype", [DataType.FP64, DataType.INT64, DataType.INT32, DataType.FP32])
def test_tables_of_other_numbers(trained, datatype):
    for name in ("binary", "lightgbm-binary"):
        path, _ = trained[name]
        inputs = (DeclaredTensor(name="x", datatype=datatype, dims=(4,)),)
        backend, signature = load(backend_of(path), path, inputs=inputs)
        assert signature.inputs[0].datatype is datatype
        x = np.arange(12).reshape(3, 4).astype(datatype.lower().replace("fp", "float"))
        plain, _ = load(backend_of(path), path)
        expected = run(plain, x.astype(np.float32), "output__0")
        np.testing.assert_allclose(run(backend, x, "output__0", name="x"), expected, rtol=1e-5)


def test_fil_takes_its_file_by_model_type_and_answers_fp32(trained, tmp_path):
    (tmp_path / "xgboost.json").write_bytes(trained["multi"][0].read_bytes())
    (tmp_path / "model.txt").write_bytes(trained["lightgbm-multiclass"][0].read_bytes())
    for kind, name in (("xgboost_json", "multi"), ("lightgbm", "lightgbm-multiclass")):
        backend, signature = load("fil", tmp_path / "xgboost.json", parameters={"model_type": kind, "algo": "NAIVE"})
        assert signature.outputs[0].datatype is DataType.FP32
        np.testing.assert_allclose(run(backend, table(6), "output__0"), trained[name][1], rtol=1e-5)
    with pytest.raises(SetupError, match=r"there is no model file .*xgboost.ubj"):
        load("fil", tmp_path / "xgboost.json", parameters={"model_type": "xgboost_ubj"})
    with pytest.raises(InvalidConfig, match="served by the backend sklearn"):
        load("fil", tmp_path / "xgboost.json", parameters={"model_type": "treelite_checkpoint"})
    with pytest.raises(InvalidConfig, match="threshold: must be a number from 0 to 1; got 'high'"):
        load("fil", tmp_path / "xgboost.json", parameters={"threshold": "high"})
