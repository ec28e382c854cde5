"""When models that services need are loaded again: whatever lies in their folders, looking at them ends."""

import asyncio
import os

from trilith.errors import SetupError
from trilith.orchestration.engine.node_models import NodeModels


class Loads:
    """Notes what is loaded; refuses what is named `bad`."""

    def __init__(self):
        self.loaded = []

    async def load(self, name, folder):
        self.loaded.append(name)
        if name == "bad":
            raise SetupError("it cannot be loaded")


def test_a_folder_with_anything_in_it(tmp_path):
    for name in ("odd", "fine"):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1" / "model.onnx").write_bytes(b"x")
    (tmp_path / "odd" / "self").symlink_to("self")
    (tmp_path / "odd" / "up").symlink_to(".")
    os.mkfifo(tmp_path / "odd" / "pipe")
    (tmp_path / "bad").symlink_to("/dev")
    loads = Loads()
    models = NodeModels(loads)

    async def main():
        for _ in range(2):
            await models.load(["odd", "fine", "bad"], [str(tmp_path)])
        assert sorted(loads.loaded) == ["bad", "bad", "fine", "odd"]
        (tmp_path / "odd" / "1" / "model.onnx").write_bytes(b"xy")
        await models.load(["odd", "fine"], [str(tmp_path)])
        assert loads.loaded[-1] == "odd"

    asyncio.run(main())
