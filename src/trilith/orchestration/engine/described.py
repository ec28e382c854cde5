"""From what the first worker of a revision says of its application to the revision that is wanted. Pure."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from trilith.errors import Bug
from trilith.orchestration.engine.control import Described
from trilith.orchestration.reconcile import DesiredService
from trilith.orchestration.revisions import Revision
from trilith.orchestration.spec import DeployedApplication


class DeclaredApplication(NamedTuple):
    """What the agent keeps of an application.

    Attributes:
        described: as the gateway gets it.
        cpu: the bound on the cores of each service's replicas, None for none.
        mounts: the paths of the root's mounts.
        methods: whether the root has methods.
    """

    described: Described
    cpu: dict[str, float | None]
    mounts: tuple[str, ...]
    methods: bool = True


def revision_of(described: Described, number: int, root_replicas: int | None) -> Revision[DeclaredApplication]:
    """The revision that `described` declares.

    Args:
        described: the application; its first service is the root.
        number: of the revision.
        root_replicas: replicas of the root service instead of what it declares, or None.

    Raises:
        Bug: it is no description of an application.
    """
    try:
        services = msgspec.json.decode(described.description, type=DeployedApplication).services
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Bug(f"the description of an application cannot be read: {error}; please report this") from error
    desired = tuple(
        DesiredService(
            service=service.name,
            replicas=root_replicas if root_replicas is not None and service is services[0] else service.replicas,
            revision=number,
        )
        for service in services
    )
    mounts = tuple(mount.path for mount in services[0].mounts)
    cpu = {service.name: service.cpu for service in services}
    content = DeclaredApplication(described, cpu, mounts, bool(services[0].methods))
    return Revision(number=number, desired=desired, content=content)
