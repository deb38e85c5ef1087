"""Hypothesis profiles: how long a machine takes proves nothing about a property; the default repeats its examples."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("fresh", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("fresh"), derandomize=True)
settings.load_profile("same")
