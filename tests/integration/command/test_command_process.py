"""The process of a command by itself: started, heard, ended, and nothing of it left."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from trilith.errors import SetupError
from trilith.service.command.options import Command
from trilith.service.command.running import RunningCommand

ECHO = str(Path(__file__).parent / "programs" / "echo.py")


def command(*arguments, **options):
    given = Command(arguments=arguments or (sys.executable, ECHO, "{port}"), **options)
    return RunningCommand("Echo", given, given.arguments)


async def gone(pid):
    """Waits until a process is there no more."""
    await until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


async def until(condition):
    while not condition():  # noqa: ASYNC110 - of another process there is no event
        await asyncio.sleep(0.01)


def run(coroutine):
    async def bounded():
        async with asyncio.timeout(60):
            await coroutine

    asyncio.run(bounded())


def test_it_is_ready_when_it_answers_and_ends_when_it_is_asked(tmp_path):
    async def scenario():
        bye = tmp_path / "bye"
        running = command(environment={"ECHO_SAYS_BYE": str(bye)}, ready="/health", stop_signal="SIGINT")
        await running.start()
        assert (await running.look(5)).why_not == ""
        await running.stop(30)
        assert bye.read_text() == "SIGINT"
        assert running.how_it_ended == "it ended with status 0"

    run(scenario())


def test_its_output_is_logged_line_by_line(caplog):
    async def scenario():
        running = command(sys.executable, "-c", "import sys; print('one\\ntwo'); print('three', file=sys.stderr)")
        with pytest.raises(SetupError, match=r"it ended with status 0 before it was ready; it wrote last: .*two"):
            await running.start()

    with caplog.at_level(logging.INFO, "trilith.command.Echo"):
        run(scenario())
    assert sorted(record.message for record in caplog.records) == ["one", "three", "two"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("no-such-program-here", "x"), "there is no program 'no-such-program-here' on PATH"),
        (("./no-such-program-here",), "there is no program './no-such-program-here' here"),
        (("/etc/passwd",), "cannot be started: Permission denied"),
        (
            (sys.executable, "-c", "raise SystemExit('no licence')"),
            "ended with status 1 before it was ready.*no licence",
        ),
        ((sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"), "killed by SIGKILL before it was ready"),
    ],
)
def test_a_command_that_is_no_good_says_why(arguments, words):
    async def scenario():
        with pytest.raises(SetupError, match=f"(?s)Echo: .*{words}"):
            await command(*arguments).start()

    run(scenario())


def test_a_command_that_never_gets_ready_is_ended():
    async def scenario():
        running = command(
            sys.executable, "-c", "print('loading', flush=True); import time; time.sleep(3600)", start_timeout_s=1
        )
        with pytest.raises(
            SetupError, match=r"not ready within 1 s: nothing listens on port \d+; it wrote last: loading"
        ):
            await running.start()
        assert running.how_it_ended == "it was killed by SIGKILL"

    run(scenario())


def test_a_status_says_whether_it_is_ready():
    async def scenario():
        running = command(ready="/health", ready_status=204, start_timeout_s=1)
        with pytest.raises(SetupError, match="GET /health has the status 200"):
            await running.start()

    run(scenario())


def test_a_folder_that_is_not_there_and_a_port_that_is_taken():
    async def scenario():
        with pytest.raises(SetupError, match="working folder /no/such is not there"):
            await command(folder="/no/such").start()
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(SetupError, match=f"port {port} is taken"):
            command(port=port)
        server.close()
        await server.wait_closed()

    run(scenario())


def test_what_ends_by_itself_is_told_and_takes_along_what_it_started(tmp_path):
    async def scenario():
        children = tmp_path / "children"
        running = command(environment={"ECHO_CHILDREN": str(children)})
        await running.start()
        told = []
        running.watch(told.append)
        pids = [int(pid) for pid in children.read_text().split()]
        os.kill(running._process.pid, signal.SIGKILL)
        for pid in pids:
            await gone(pid)
        await until(lambda: told)
        assert told[0].startswith("its command has ended: it was killed by SIGKILL; it wrote last: listening on")
        await running.stop(5)

    run(scenario())


def test_nothing_is_left_when_its_keeper_is_killed(tmp_path):
    async def scenario():
        children = tmp_path / "children"
        running = command(environment={"ECHO_CHILDREN": str(children)})
        await running.start()
        told = []
        running.watch(told.append)
        pids = [running._process.pid, *(int(pid) for pid in children.read_text().split())]
        running._process._keeper.kill()
        await until(lambda: told)
        for pid in pids:  # when it is told, and not later
            assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        assert told[0].startswith("its command has ended: its keeper was killed; it wrote last: listening on")
        await running.stop(5)

    run(scenario())


def test_what_does_not_end_is_killed_with_all_that_it_started(tmp_path):
    async def scenario():
        children = tmp_path / "children"
        running = command(
            environment={"ECHO_CHILDREN": str(children), "ECHO_STUBBORN": "1"}, ready="/health", stop_timeout_s=0.3
        )
        await running.start()
        pids = [running._process.pid, *(int(pid) for pid in children.read_text().split())]
        await running.stop(30)
        assert running.how_it_ended == "it was killed by SIGKILL"
        for pid in pids:
            await gone(pid)

    run(scenario())


REPLICA = """
import asyncio, sys
from trilith.service.command.options import Command
from trilith.service.command.running import RunningCommand

async def main():
    given = Command(arguments=(sys.executable, sys.argv[1], "{port}"), environment={"ECHO_CHILDREN": sys.argv[2]})
    running = RunningCommand("Echo", given, given.arguments)
    await running.start()
    print(running._process.pid, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.mark.parametrize("fork", [False, True], ids=["alone", "with a child that it forked"])
def test_nothing_is_left_when_its_replica_is_killed(tmp_path, fork):
    script = REPLICA.replace("await asyncio.sleep", "__import__('trilith.core.forks')\n    await asyncio.sleep")
    if fork:
        script = script.replace(
            "    await asyncio.sleep(3600)",
            "    import os\n    from trilith.core import forks\n    forks.confine_forks()\n"
            "    if not os.fork():\n        import time; time.sleep(30)\n        os._exit(0)\n"
            "    await asyncio.sleep(3600)",
        )
    children = tmp_path / "children"
    replica = subprocess.Popen([sys.executable, "-c", script, ECHO, str(children)], stdout=subprocess.PIPE, text=True)
    pids = [int(replica.stdout.readline()), *(int(pid) for pid in children.read_text().split())]
    others = [child.pid for child in psutil.Process(replica.pid).children()]
    replica.kill()
    replica.wait()
    replica.stdout.close()

    async def scenario():
        for pid in pids:
            await gone(pid)

    run(scenario())
    for pid in others:  # the child that was forked
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_port_that_somebody_else_takes_meanwhile_is_said():
    async def scenario():
        running = command()
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", running.port)
        with pytest.raises(SetupError, match=r"ended with status 1 before it was ready.*Address already in use"):
            await running.start()
        server.close()
        await server.wait_closed()

    run(scenario())
