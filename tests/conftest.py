"""For all tests: a property is judged by what it finds, never by how long a busy machine takes over an example."""

from hypothesis import HealthCheck, settings

settings.register_profile("trilith", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("trilith")
