"""Repository agents: the checksums of Triton's own, how configurations say agents, and what is refused."""

import hashlib
import os

import pytest

from trilith.errors import InvalidConfig, SetupError
from trilith.runtime import check_models
from trilith.runtime.agents.chain import Agents, run_agents
from trilith.runtime.agents.checksum import verify
from trilith.runtime.agents.host import AgentRequest, answer
from trilith.runtime.load_run import LoadRun
from trilith.runtime.model_convert import pbtxt_to_yaml, yaml_to_pbtxt
from trilith.runtime.model_pbtxt import parse_model_pbtxt
from trilith.runtime.model_yaml import load_model_yaml
from trilith.runtime.overrides import Override
from trilith.runtime.spec import AgentSpec

IDENTITY = """backend: "identity" max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: 2 } output { name: "y" data_type: TYPE_FP32 dims: 2 }
"""
AGENTS = 'model_repository_agents { agents { name: "checksum" parameters { key: "MD5:1/model.bin" value: "%s" } } }'
CONTENT = b"the weights"
DIGEST = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "m"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.bin").write_bytes(CONTENT)
    return folder


def checksum(**parameters):
    return AgentSpec(name="checksum", parameters={key.replace("__", ":"): value for key, value in parameters.items()})


def asked(folder, *agents, known=None):
    return run_agents(agents, known or Agents(), "m", folder, "config.pbtxt", LoadRun())


def test_a_checksum_that_fits(folder):
    agent = AgentSpec(name="checksum", parameters={"MD5:1/model.bin": DIGEST.upper()})
    assert asked(folder, agent, agent).folder == folder


@pytest.mark.parametrize(
    ("key", "digest", "says"),
    [
        (
            "MD5:1/model.bin",
            "invalid_checksum",
            f"model 'm': Mismatched MD5 hash for file 1/model.bin, expected invalid_checksum, got {DIGEST} (repository",
        ),
        ("MD5:1/model.bin", "", "expected nothing, got"),
        ("MD5:1/none.bin", DIGEST, "Failed to open file 1/none.bin: No such file"),
        ("MD5:1", DIGEST, "Failed to open file 1: Is a directory"),
        ("MD5:../m/1/model.bin", DIGEST, "must be MD5:FILE with FILE in the model's folder"),
        ("MD5:/etc/passwd", DIGEST, "must be MD5:FILE"),
        ("MD5:", DIGEST, "must be MD5:FILE"),
        ("SHA256:1/model.bin", DIGEST, "must be MD5:FILE"),
    ],
)
def test_what_a_checksum_refuses(folder, key, digest, says):
    with pytest.raises(SetupError) as caught:
        asked(folder, AgentSpec(name="checksum", parameters={key: digest}))
    assert says in caught.value.message


@pytest.mark.parametrize("name", ["nobody", "", "..", "a/b", "x" * 5000, "a\0b"])
def test_an_unknown_agent_is_refused_by_name(folder, tmp_path, name):
    (tmp_path / "agents" / "own").mkdir(parents=True)
    (tmp_path / "agents" / "own" / "agent.py").touch()
    with pytest.raises(InvalidConfig) as caught:
        asked(folder, AgentSpec(name=name), known=Agents(tmp_path / "agents"))
    assert caught.value.message.startswith(
        f"config.pbtxt: there is no repository agent {name!r:.100}; here are checksum, own."
    )


def test_all_forms_say_the_same(tmp_path):
    text = IDENTITY + (AGENTS % DIGEST).removesuffix("}") + 'agents { name: "own" } }'
    spec = parse_model_pbtxt(text, "m", source="config.pbtxt")
    assert spec.agents == (AgentSpec(name="checksum", parameters={"MD5:1/model.bin": DIGEST}), AgentSpec(name="own"))
    (tmp_path / "model.yaml").write_text(pbtxt_to_yaml(text, "m", source="config.pbtxt"))
    assert "triton" not in (tmp_path / "model.yaml").read_text()
    assert load_model_yaml(tmp_path / "model.yaml", "m").agents == spec.agents
    values = {"agents": [{"name": "checksum", "parameters": {"MD5:1/model.bin": DIGEST}}, {"name": "own"}]}
    assert parse_model_pbtxt(yaml_to_pbtxt(values, source="model.yaml"), "m", source="back").agents == spec.agents
    (tmp_path / "model.yaml").write_text("backend: identity\nagents: [{name: own}]\n")
    sent = '{"model_repository_agents": {"agents": [{"name": "checksum"}]}}'
    assert Override("m", sent, {}).spec_of(tmp_path).agents == (AgentSpec(name="checksum"),)
    with pytest.raises(InvalidConfig, match=r"model_repository_agents.agents\[0\].name: is missing"):
        parse_model_pbtxt("model_repository_agents { agents { } }", "m", source="config.pbtxt")


def test_check_verifies_checksums_and_names_agents(folder, tmp_path):
    config = folder / "config.pbtxt"
    config.write_text(IDENTITY + AGENTS % DIGEST)
    [found] = check_models(folder)
    assert found.ok
    assert (
        "Before it is loaded, its files are shown to the repository agent checksum, which may refuse." in found.meaning
    )
    config.write_text(IDENTITY + AGENTS % ("0" * 32))
    [found] = check_models(folder)
    assert "Mismatched MD5 hash for file 1/model.bin" in found.problem
    config.write_text(IDENTITY + 'model_repository_agents { agents { name: "own" } }')
    [found] = check_models(folder)
    assert f"{config}: there is no repository agent 'own'; here are checksum." in found.problem
    (tmp_path / "agents" / "own").mkdir(parents=True)
    (tmp_path / "agents" / "own" / "agent.py").write_text("raise SystemExit  # is not run")
    assert check_models(folder, repoagent_directory=tmp_path / "agents")[0].ok


@pytest.mark.parametrize(
    ("code", "action", "says"),
    [
        ("class RepositoryAgent:\n def load(self, model): return model.folder.parent", "load", ""),
        ("class RepositoryAgent:\n def load(self, model): pass", "unload", ""),
        (
            "class RepositoryAgent:\n def load(self, model): raise ValueError(model.parameters['k'])",
            "load",
            "ValueError: v",
        ),
        (
            "class RepositoryAgent:\n def load(self, model): return 'nowhere'",
            "load",
            "must return a folder or None, got 'nowhere'",
        ),
        ("class RepositoryAgent:\n def load(self, model): return 3", "load", "must return a folder or None, got 3"),
        ("class RepositoryAgent: pass", "load", "RepositoryAgent has no method load"),
        ("x = 1", "load", "has no class RepositoryAgent"),
        ("raise SystemExit(3)", "load", "SystemExit: 3"),
        ("def", "load", "SyntaxError"),
    ],
)
def test_what_an_agent_of_ones_own_says(tmp_path, folder, code, action, says, capsys):
    (tmp_path / "agent.py").write_text(code)
    found = answer(
        AgentRequest(
            parent=0,
            script=str(tmp_path / "agent.py"),
            action=action,
            model="m",
            folder=str(folder),
            parameters={"k": "v"},
        )
    )
    assert (says in found.problem) if says else found.problem == ""
    assert found.folder == (str(folder.parent) if "parent" in code else "")


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_only_regular_files_have_a_digest(tmp_path, kind):
    if kind == "device":
        (tmp_path / "x").symlink_to("/dev/zero")
    else:
        os.mkfifo(tmp_path / "x")
    with pytest.raises(SetupError, match="Failed to open file x: it is no regular file"):
        verify(tmp_path, {"MD5:x": "0"}, lambda: None)
