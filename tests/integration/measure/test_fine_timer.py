import asyncio
import sys
import time

import pytest
import uvloop

from trilith.measure.load.fine_timer import fine_timer


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the timer is Linux's")
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_it_calls_back_once_for_each_setting_and_never_early(run):
    async def main():
        calls = []
        fired = asyncio.Event()

        def callback():
            calls.append(time.perf_counter())
            fired.set()

        timer = fine_timer(callback)
        for delay_s in (0.0, 0.0004, 0.003):
            fired.clear()
            due_at = time.perf_counter() + delay_s
            timer.set(60.0)  # what is set anew replaces what was set
            timer.set(delay_s)
            await asyncio.wait_for(fired.wait(), 20)
            assert calls[-1] >= due_at - 1e-5
        assert len(calls) == 3
        timer.set(0.0)
        timer.close()
        timer.close()
        await asyncio.sleep(0.01)
        assert len(calls) == 3

    run(main())
