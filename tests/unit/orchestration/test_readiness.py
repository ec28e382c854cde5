"""Why a server is not ready, in words."""

from trilith.orchestration.engine.readiness import problems

WELL = {"services_without_replica": [], "application_missing": False, "models_ready": True, "models_missing": []}


def test_models_that_are_missing_are_named():
    assert problems(**WELL, draining=False) == []
    missing = WELL | {"models_ready": False}
    assert problems(**missing, draining=False) == ["the models are not loaded yet; see /v2/repository/index"]
    named = missing | {"models_missing": ["det", "rec"]}
    assert problems(**named, draining=False) == ["not loaded: det, rec; see /v2/repository/index"]
    [many] = problems(**missing | {"models_missing": [f"m{at}" for at in range(20)]}, draining=False)
    assert many.startswith("not loaded: m0, ")
    assert many.endswith(" m9, ...; see /v2/repository/index")
