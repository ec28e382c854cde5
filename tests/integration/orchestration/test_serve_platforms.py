"""A server as SageMaker and Vertex AI call it."""

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("tritonclient.http")

CONFIG = """backend: "identity" max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: 2 } output { name: "y" data_type: TYPE_FP32 dims: 2 }
"""
SAGEMAKER = "application/vnd.sagemaker-triton.binary+json;json-header-size="
VERTEX = "application/vnd.vertex-ai-triton.binary+json;json-header-size="
MESSAGE = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1.0, 2.0]}]}


def write(folder):
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(CONFIG)


@pytest.fixture(scope="module")
def server(serve_module, tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    write(root / "m")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIP_HEALTH_ROUTE", "/v1/health")
        patch.setenv("AIP_PREDICT_ROUTE", "/v1/predict")
        restricted = ("--http-restricted-api", "model-repository:x-admin=yes")
        return serve_module(root, "--allow-sagemaker", "--allow-vertex-ai", *restricted)


def binary_request():
    import tritonclient.http as triton

    x = triton.InferInput("x", [1, 2], "FP32")
    x.set_data_from_numpy(np.array([[3, 4]], np.float32))
    return triton.InferenceServerClient.generate_request_body([x])


@pytest.mark.parametrize(
    ("health", "predict", "form"), [("/ping", "/invocations", SAGEMAKER), ("/v1/health", "/v1/predict", VERTEX)]
)
def test_health_json_and_binary(server, health, predict, form):
    import tritonclient.http as triton

    assert server.get(health)[0] == 200
    status, answer = server.post(predict, MESSAGE)
    assert (status, answer["outputs"][0]["data"]) == (200, [1.0, 2.0])
    body, json_size = binary_request()
    with server.connection() as connection:
        connection.request("POST", predict, body, {"content-type": f"{form}{json_size}"})
        response = connection.getresponse()
        content_type, answer = response.headers["content-type"], response.read()
    assert response.status == 200, answer
    assert content_type.startswith(form)
    result = triton.InferenceServerClient.parse_response_body(
        answer, header_length=int(content_type.removeprefix(form))
    )
    assert result.as_numpy("y").tolist() == [[3, 4]]
    status, answer = server.post(predict, {"inputs": []})
    assert status == 400
    assert "error" in answer


def test_a_redirect_meets_what_stands_before_its_path(server):
    redirect = {"X-Vertex-Ai-Triton-Redirect": "v2/models/m/infer"}
    assert server.post("/v1/predict", MESSAGE, headers=redirect)[0] == 200
    index = {"X-Vertex-Ai-Triton-Redirect": "v2/repository/index"}
    assert server.post("/v1/predict", headers=index)[0] == 403
    status, models = server.post("/v1/predict", headers={**index, "x-admin": "yes"})
    assert (status, [model["name"] for model in models]) == (200, ["m"])
    status, answer = server.post("/v1/predict", MESSAGE, headers={"X-Vertex-Ai-Triton-Redirect": "metrics"})
    assert (status, answer["error"]["message"][:44]) == (404, "x-vertex-ai-triton-redirect: must name a pat")


def test_they_are_off_by_default(serve, tmp_path):
    write(tmp_path / "m")
    shutil.copytree(tmp_path / "m", tmp_path / "n")
    server = serve(tmp_path)
    assert server.get("/ping")[0] == 404
    assert server.post("/invocations", MESSAGE)[0] == 404


def test_sagemaker_loads_models_one_by_one(serve, tmp_path, monkeypatch):
    import tritonclient.http as triton

    monkeypatch.setenv("SAGEMAKER_MULTI_MODEL", "true")
    (tmp_path / "models").mkdir()
    write(tmp_path / "placed" / "hash" / "model" / "inner")
    config = tmp_path / "placed" / "hash" / "model" / "inner" / "config.pbtxt"
    config.write_text(CONFIG + 'name: "its-own-name"')
    server = serve(tmp_path / "models", "--allow-sagemaker", "--model-control-mode", "explicit")
    assert server.get("/ping")[0] == 200
    url = str(tmp_path / "placed" / "hash" / "model")
    assert server.post("/models/hash/invoke", MESSAGE)[0] == 404
    with server.connection() as connection:
        for expected in (200, 409):
            connection.request("POST", "/models", json.dumps({"model_name": "hash", "url": url}))
            response = connection.getresponse()
            response.read()
            assert response.status == expected
    assert json.loads(server.get("/models")[1]) == {"models": [{"modelName": "hash", "modelUrl": url}]}
    assert json.loads(server.get("/models/hash")[1]) == {"modelName": "hash", "modelUrl": url}
    status, answer = server.post("/models/hash/invoke", MESSAGE)
    assert (status, answer["model_name"], answer["outputs"][0]["data"]) == (200, "hash", [1.0, 2.0])
    body, json_size = binary_request()
    with server.connection() as connection:
        connection.request("POST", "/models/hash/invoke", body, {"content-type": f"{SAGEMAKER}{json_size}"})
        response = connection.getresponse()
        size = int(response.headers["content-type"].removeprefix(SAGEMAKER))
        result = triton.InferenceServerClient.parse_response_body(response.read(), header_length=size)
        assert result.as_numpy("y").tolist() == [[3, 4]]
        connection.request("DELETE", "/models/hash")
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"{}")
        connection.request("DELETE", "/models/hash")
        response = connection.getresponse()
        response.read()
        assert response.status == 404
    assert json.loads(server.get("/models")[1]) == {"models": []}
    assert server.post("/models/hash/invoke", MESSAGE)[0] == 404
    status, answer = server.post("/models", {"model_name": "other", "url": str(tmp_path / "nowhere")})
    assert (status, "there is no such folder" in json.dumps(answer)) == (400, True)
    config.write_text(CONFIG + "nonsense: 1")
    assert server.post("/models", {"model_name": "hash", "url": url})[0] == 400
    config.write_text(CONFIG)
    assert server.post("/models", {"model_name": "hash", "url": url})[0] == 200  # whatever failed before
    for here, there in (("unload", []), ("load", [{"modelName": "hash", "modelUrl": url}])):
        assert server.post(f"/v2/repository/models/hash/{here}", {})[0] == 200
        assert json.loads(server.get("/models")[1]) == {"models": there}
    assert server.post("/v2/repository/models/hash/unload", {})[0] == 200
    assert server.post("/models", {"model_name": "hash", "url": url})[0] == 200  # its name is free


def test_which_of_several_models_must_be_said(serve, tmp_path, monkeypatch):
    write(tmp_path / "m")
    shutil.copytree(tmp_path / "m", tmp_path / "n")
    server = serve(tmp_path, "--allow-sagemaker")
    status, answer = server.post("/invocations", MESSAGE)
    assert status == 400
    assert "there are 2: m, n" in json.dumps(answer)
    monkeypatch.setenv("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", "n")
    server = serve(tmp_path, "--allow-sagemaker")
    status, answer = server.post("/invocations", MESSAGE)
    assert (status, answer["model_name"]) == (200, "n")
