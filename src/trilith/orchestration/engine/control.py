"""What the agent and its child processes tell each other. Pure: `control_channel` carries it.

Rule: a message is a tagged frozen struct; an unknown one is a Bug, since both ends are of one version.
"""

from __future__ import annotations

import msgspec

from trilith.orchestration.access.keys import KeyRing


class Message(msgspec.Struct, frozen=True, tag_field="kind", kw_only=True):
    """Base of all control messages."""


class Deploy(Message, frozen=True, tag="deploy"):
    """Agent to gateway: get ready to serve this application (its description as JSON): load its models.

    `publish`: serve it at once, as the first revision is, whose calls wait for its replicas.
    """

    description: msgspec.Raw
    revision: int
    model_roots: list[str]
    publish: bool


class Publish(Message, frozen=True, tag="publish"):
    """Agent to gateway: the revision's replicas are up; from now on its methods are served, and by them alone."""

    revision: int


class RemoveReplica(Message, frozen=True, tag="remove_replica"):
    """Agent to gateway: send nothing more to the replica and say when it is idle."""

    replica_id: int


class ReplicaGone(Message, frozen=True, tag="replica_gone"):
    """Agent to gateway: the replica's process has exited, whatever its connection says (its children may hold it)."""

    replica_id: int


class Keys(Message, frozen=True, tag="keys"):
    """Agent to gateway: the API keys that hold from now on. Before the first ones no request that needs one passes."""

    ring: KeyRing


class ReplicaIdle(Message, frozen=True, tag="replica_idle"):
    """Gateway to agent: a removed replica has nothing in flight."""

    replica_id: int


class ReplicaServing(Message, frozen=True, tag="replica_serving"):
    """Gateway to agent: the replica's service is constructed, and the gateway can call it."""

    replica_id: int


class ReplicaUnwell(Message, frozen=True, tag="replica_unwell"):
    """Gateway to agent: a replica is alive and no good; it should be replaced."""

    replica_id: int
    reason: str


class Replicas(Message, frozen=True, tag="replicas"):
    """Agent to gateway: the state of each replica, for `status`."""

    replicas: list[ReplicaRow]


class ReplicaRow(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as `trilith status` shows it."""

    replica_id: int
    service: str
    revision: int
    state: str
    pid: int
    restarts: int


class ModelsLoading(Message, frozen=True, tag="models_loading"):
    """Gateway to agent: so many models of the repositories are done, loaded or failed; `name` is the last one."""

    done: int
    total: int
    name: str


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One model version as a person sees it when it is served. `load_s`: seconds that loading took, or None."""

    name: str
    version: str
    backend: str
    instances: int
    device: str
    load_s: float | None
    state: str
    reason: str


class GatewayReady(Message, frozen=True, tag="gateway_ready"):
    """Gateway to agent: models of the revision are loaded, or failed and logged.

    `not_ready`: those of an application that failed; `rows` of a repository's models.
    """

    revision: int
    models: int
    not_ready: list[str] = []
    rows: list[ModelRow] = []


class Alive(Message, frozen=True, tag="alive"):
    """Gateway to agent, again and again: its loop turns."""


class Unprepared(Message, frozen=True, tag="unprepared"):
    """Gateway to agent: the revision cannot be got ready: it names a model that there is not, or the gateway failed."""

    revision: int
    reason: str


class Described(Message, frozen=True, tag="described"):
    """Worker to agent: the application that its target holds, before anything of it is constructed.

    `model_roots` are the folders in which its model names are to be looked up, in order; `libraries` the installed
    modules that it has imported, which the next start may import in advance.
    """

    description: msgspec.Raw
    model_roots: list[str]
    libraries: list[str] = []


class Failed(Message, frozen=True, tag="failed"):
    """Child to agent: it cannot start. The reason is for a person; `detail` may hold the user's traceback."""

    reason: str
    detail: str = ""


class Deploying(Message, frozen=True, tag="deploying"):
    """Worker to agent: what is to be done before a deployment begins, and may take so long; "" and 0: it is over.

    `keeps_processes`: it starts other programs, and marks them (`trilith.core.leftovers`).
    """

    what: str
    timeout_s: float
    keeps_processes: bool = False


class Unwell(Message, frozen=True, tag="unwell"):
    """Worker to agent: its instance says that it is of no use any more."""

    reason: str


class Stop(Message, frozen=True, tag="stop"):
    """Agent to child: finish what you have within `timeout_s` seconds, then exit.

    `at_once`: a replica's calls have had their time. They are ended, with an answer; the seconds are for its own end.
    """

    timeout_s: float
    at_once: bool = False


AnyMessage = (
    Deploy
    | Publish
    | RemoveReplica
    | ReplicaGone
    | Keys
    | ReplicaIdle
    | ReplicaServing
    | ReplicaUnwell
    | Replicas
    | GatewayReady
    | ModelsLoading
    | Alive
    | Unprepared
    | Described
    | Failed
    | Deploying
    | Unwell
    | Stop
)
