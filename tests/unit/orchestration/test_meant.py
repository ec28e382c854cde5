"""What was meant by a folder without models."""

from trilith.orchestration.engine.meant import what_was_meant


def test_services_and_repositories_are_named_and_nothing_else(tmp_path):
    (tmp_path / "client.py").write_text("import trilith\n# @trilith.service\n")
    (tmp_path / "app.py").write_text("import trilith\n\n\n@trilith.service(replicas=2)\nclass A: ...\n")
    (tmp_path / "models" / "m" / "1").mkdir(parents=True)
    (tmp_path / "src" / "m").mkdir(parents=True)
    (tmp_path / ".git" / "m" / "1").mkdir(parents=True)
    assert what_was_meant(str(tmp_path)) == ([f"{tmp_path}/app.py"], [f"{tmp_path}/models"])
    assert what_was_meant(str(tmp_path / "nowhere")) == what_was_meant("s3://bucket/models") == ([], [])
