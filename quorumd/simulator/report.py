"""The result of one simulated run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from quorumd.simulator.options import SimulationOptions
from quorumd.simulator.profiles.draw import draw_options
from quorumd.simulator.profiles.registry import DEFAULT


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated invariant; `time_ms` is virtual time."""

    time_ms: float
    invariant: str
    text: str

    def __str__(self) -> str:
        return f"at {self.time_ms:.3f} ms: {self.invariant}: {self.text}"


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one simulated run."""

    seed: int
    options: SimulationOptions
    trace_hash: str
    """Equal for equal code, seed and options."""
    virtual_ms: float
    events: int
    violations: tuple[Violation, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    """Counts by name: elections, commits, faults and their effects."""
    injected: tuple[tuple[int, float, str], ...] = ()
    """Number, virtual time and name of each injected fault."""
    drawn_faults: int = 0
    """Number of drawn faults, including those that were not possible or that `only_faults` excludes."""

    @property
    def ok(self) -> bool:
        return not self.violations

    @property
    def reproduce(self) -> str:
        """The command line that reproduces the run."""
        options, words = self.options, [f"quorumd simulate --seed {self.seed}"]
        if options.profile == "":
            return words[0]
        if options.profile != DEFAULT:
            words.append(f"--profile {options.profile}")
        drawn = draw_options(self.seed, options.profile)
        if options.only_faults is not None:
            words.append(f"--only-faults {','.join(map(str, options.only_faults)) or 'none'}")
        if options.safety_ms != drawn.safety_ms:
            words.append(f"--safety-duration {options.safety_ms!r}ms")
        if options.observers != drawn.observers:
            words.append(f"--observers {options.observers}")
        if options.workload.clients != drawn.workload.clients:
            words.append(f"--clients {options.workload.clients}")
        return " ".join(words)

    def __str__(self) -> str:
        if self.ok:
            virtual_s = self.virtual_ms / 1000
            return f"seed {self.seed}: ok, {self.events} events in {virtual_s:.1f} s of virtual time"
        lines = [f"seed {self.seed}: BROKEN", *(f"  {violation}" for violation in self.violations)]
        return "\n".join([*lines, f"  reproduce: {self.reproduce}"])

    def as_json(self) -> dict[str, object]:
        """Return JSON-ready values for `--output json`."""
        return {
            "seed": self.seed,
            "ok": self.ok,
            "violations": [asdict(violation) for violation in self.violations],
            "trace_hash": self.trace_hash,
            "virtual_ms": self.virtual_ms,
            "events": self.events,
            "counters": dict(self.counters),
            "faults": [{"number": n, "time_ms": at, "name": name} for n, at, name in self.injected],
            "options": asdict(self.options),
            "reproduce": self.reproduce,
        }
