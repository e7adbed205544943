"""The machine the figures belong to: CPU, instruction set, matrix-product rates."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field

from bench.alternate import Results
from bench.case import all_cases

RATE_CASES = ("matmul/512", "matmul/1024")


@dataclass
class Machine:
    """What is printed above all figures."""

    cpu: str
    cores: int
    python: str
    versions: dict[str, str] = field(default_factory=dict)
    instruction_sets: dict[str, str] = field(default_factory=dict)
    # float32 matrix products on one core, GFLOP/s.
    matmul_rates: dict[str, float | None] = field(default_factory=dict)

    def lines(self) -> list[str]:
        return [
            f"CPU: {self.cpu}, {self.cores} cores; Python {self.python}",
            "versions: "
            + ", ".join(f"{name} {text or '?'}" for name, text in self.versions.items()),
            "instruction set: "
            + ", ".join(f"{name} {text}" for name, text in self.instruction_sets.items()),
            "float32 matrix products, one core: "
            + ", ".join(
                f"{name} {rate:.0f} GFLOP/s" if rate else f"{name} not measured"
                for name, rate in self.matmul_rates.items()
            ),
        ]


def describe(results: Results, frameworks: tuple[str, ...]) -> Machine:
    """The machine, with the rates found so far."""
    machine = Machine(cpu_model(), len(os.sched_getaffinity(0)), platform.python_version())
    for name in frameworks:
        about = results.about.get(name, {})
        machine.versions[name] = about.get("version", "")
        machine.instruction_sets[name] = about.get("instruction_set", "unknown")
        machine.matmul_rates[name] = matmul_rate(results, name)
    return machine


def matmul_rate(results: Results, framework: str) -> float | None:
    """GFLOP/s of one core: the best that any product of one thread reached."""
    rates = [
        all_cases()[id].flops / ns
        for id in RATE_CASES
        if (ns := results.of(framework, id).ns) is not None
    ]
    return max(rates, default=None)


def cpu_model() -> str:
    """The processor's name, with the numbers that tell two of the same name apart."""
    fields: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                fields.setdefault(key.strip(), value.strip())
    except OSError:
        return platform.processor() or platform.machine()
    return (
        f"{fields.get('model name', platform.machine())} "
        f"(family {fields.get('cpu family', '?')}, model {fields.get('model', '?')})"
    )
