"""Steps of a workflow as values; what `python -X importtime` writes."""

import io

from rich.console import Console

from trilith.measure.diagnose import Step, Workflow, render_workflow
from trilith.measure.diagnose.workflow import EDIT, INSTALL, START, slow_imports

IMPORTS = """import time: self [us] | cumulative | imported package
import time:       100 |        100 |   numpy.core
import time:    900000 |     900100 | numpy
import time:      2000 |       2000 | json
import time:     10000 |      10000 | email.message
import time:     20000 |      20000 | csv
a warning of somebody
"""


def test_the_slowest_step_is_named():
    found = Workflow(
        target="app.py:Reader",
        steps=(
            Step(name=INSTALL, seconds=None, note="there is none [here]"),
            Step(name=START, seconds=1.5),
            Step(name=EDIT, seconds=0.5),
        ),
    )
    assert found.slowest.name == START
    assert found.sentence.startswith("The slowest step is start to ready: 1.5s of 2s. Import what is heavy")
    console = Console(file=io.StringIO(), width=160)
    console.print(render_workflow(found))
    assert "there is none [here]" in console.file.getvalue()


def test_nothing_that_was_timed_is_said_to_be_so():
    found = Workflow(target="app.py:Reader", steps=(Step(name=INSTALL, seconds=None),))
    assert (found.slowest, found.sentence) == (None, "No step could be timed.")


def test_imports_of_the_file_itself_slowest_first():
    assert slow_imports(IMPORTS) == [("numpy", 0.9001), ("csv", 0.02), ("email.message", 0.01)]
    assert slow_imports("") == []
