"""What a replica tells of its instance: changes alone, with the reason; and when it is given up."""

import asyncio

import trilith
from trilith.orchestration.engine.replica_health import ReplicaHealth
from trilith.service import spec_of


@trilith.service(health_interval_s=0.001, health_timeout_s=5, health_failures=3)
class Watched:
    def __init__(self) -> None:
        self.ready = iter(())
        self.alive = iter(())

    async def __is_ready__(self) -> bool:
        return next(self.ready, True)

    async def __is_alive__(self) -> bool:
        return next(self.alive, True)

    @trilith.api
    async def a(self) -> int:
        return 1


def watched(ready=(), alive=(), *, told_times=0, dead_times=0):
    told, dead = [], []

    async def main():
        enough = asyncio.Event()

        def heard(book):
            def note(text):
                book.append(text)
                if len(told) >= told_times and len(dead) >= dead_times:
                    enough.set()

            return note

        instance = Watched()
        instance.ready, instance.alive = iter(ready), iter(alive)
        health = ReplicaHealth(spec_of(Watched), instance, on_ready=heard(told), on_dead=heard(dead))
        assert health.has_a_say
        await health.until_ready()
        task = asyncio.create_task(health.watch())
        await asyncio.wait_for(enough.wait(), 20)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return health

    return asyncio.run(main()), told, dead


def test_a_change_is_told_once():
    health, told, dead = watched([False, False, True, True, False, False, True, False], told_times=3)
    assert told == ["__is_ready__ returned False", "", "__is_ready__ returned False"]
    assert health.not_ready
    assert dead == []


def test_it_is_given_up_after_several_in_a_row():
    _, _, dead = watched(alive=[False, False, True, False, False, False, False], dead_times=1)
    assert dead == ["__is_alive__ returned False, 3 times in a row"]
