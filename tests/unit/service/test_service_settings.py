import pytest

import trilith
from trilith.errors import InvalidConfig
from trilith.service import Batch, apply_settings, describe, service_graph, spec_of


def application():
    @trilith.service(batch=Batch(max_size=2))
    def double(numbers: list[int]) -> list[int]:
        return [2 * number for number in numbers]

    @trilith.service
    class Inner:
        model = trilith.model("m")
        own = trilith.model("own", placement="replica")

        @trilith.api(batch=Batch(max_size=4, max_wait_ms=1), timeout_s=3)
        def read(self, items: list[str]) -> list[str]:
            return items

        @trilith.api
        def plain(self, item: str) -> str:
            return item

    @trilith.service(replicas=2)
    class Outer:
        inner = trilith.depends(Inner)
        doubled = trilith.depends(double)

        @trilith.api
        async def both(self, item: str) -> str:
            return item

    return Outer


def test_what_is_set_is_what_the_application_says_of_itself():
    target = application()
    settings = {
        "Outer": {"replicas": 3, "cpu": 0.5, "both": {"timeout_s": 7}},
        "Inner": {"read": {"max_batch": 16, "max_wait_ms": None}},
        "double": {"max_batch": 32, "threads": 2},
    }
    apply_settings(service_graph(spec_of(target)), settings, ["m"])
    services = {service.name: service for service in describe(target).services}
    assert (services["Outer"].replicas, services["Outer"].cpu) == (3, 0.5)
    assert services["Outer"].methods[0].timeout_s == 7
    read = services["Inner"].methods[0]
    assert (read.batch.max_size, read.batch.max_wait_ms, read.timeout_s) == (16, None, 3)
    assert (services["double"].methods[0].batch.max_size, services["double"].threads) == (32, 2)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"Iner": {"replicas": 2}},
            "there is no service 'Iner' to set; the services are Outer, double, Inner",
        ),
        ({"Inner": {"replica": 2}}, "Inner.replica: cannot be set; of Inner can be replicas, cpu"),
        ({"Inner": {"name": "x"}}, "Inner.name: cannot be set"),
        ({"Inner": {"read": 2}}, "Inner.read: is a method, of which can be set max_batch, max_wait_ms, timeout_s"),
        ({"Inner": {"read": {"max_size": 2}}}, "Inner.read.max_size: cannot be set"),
        ({"Inner": {"plain": {"max_batch": 2}}}, "Inner.plain: takes one call at a time, so it has no max_batch"),
        ({"Inner": {"read": {"max_batch": 0}}}, "Inner.read: batch: max_size must be a whole number from 1 to 4096"),
        ({"Inner": {"replicas": "two"}}, "Inner: service: replicas must be a whole number from 1 to 65536, got 'two'"),
        ({"Inner": {"replicas": {"x": 1}}}, "Inner: service: replicas must be a whole number"),
    ],
)
def test_what_cannot_be_set_is_refused_by_name(settings, said):
    with pytest.raises(InvalidConfig) as raised:
        apply_settings(service_graph(spec_of(application())), settings)
    assert said in raised.value.message


def test_models_that_no_service_uses_or_that_each_replica_loads():
    graph = service_graph(spec_of(application()))
    with pytest.raises(InvalidConfig, match=r"models.n: no service uses a model of that name; the models are m, own"):
        apply_settings(graph, {}, ["n"])
    with pytest.raises(InvalidConfig, match=r"models.own: is loaded in each replica"):
        apply_settings(graph, {}, ["own"])
