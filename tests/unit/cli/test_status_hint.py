"""What `trilith status` says of calls that wait."""

from trilith.cli.status import waiting_hint
from trilith.orchestration.engine.status_types import LinkRow, ServiceStatus


def service(waiting, *links):
    rows = [
        LinkRow(replica_id=at, pid=1, in_flight=in_flight, room=room, answered=0, runs=0, busy_s=0.0)
        for at, (in_flight, room) in enumerate(links)
    ]
    return ServiceStatus(name="Desk", serving=len(links), waiting=waiting, in_flight=0, replicas=[], links=rows)


def test_it_says_what_would_help():
    hint = waiting_hint(service(3, (4, 0)))
    assert hint.startswith("Desk: 3 calls wait: its replica works on 4 at a time, which is all that it takes.")
    assert "more threads" in hint
    assert waiting_hint(service(1, (4, 0), (3, 0))).startswith("Desk: 1 call waits: each of its 2 replicas works on 4")


def test_nothing_waits_or_there_is_room():
    assert (
        waiting_hint(service(0, (4, 0))) == waiting_hint(service(3, (4, 0), (3, 1))) == waiting_hint(service(3)) == ""
    )
