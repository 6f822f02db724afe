"""All optimizers by name: the single ones, and those that combine them."""

from typing import Any

from optimizers.teleprompters.better_together import BETTER_TOGETHER
from optimizers.teleprompters.race.race import RACE
from optimizers.teleprompters.single import SINGLE
from optimizers.teleprompters.task import Optimizer
from programs.catalog import PROGRAMS, build
from signatures.common.errors import one_line, unknown

OPTIMIZERS: dict[str, Optimizer] = {**SINGLE, "better_together": BETTER_TOGETHER, "race": RACE}


def get_optimizer(name: str) -> Optimizer:
    """Return the record of an optimizer.

    Raises:
        UserError: There is none of that name.
    """
    if name not in OPTIMIZERS:
        raise unknown("optimizer", name, OPTIMIZERS)
    return OPTIMIZERS[name]


Listed = dict[str, dict[str, Any]]


def listed(program: str | None = None, *, preset: str = "paper") -> Listed:
    """Return for each optimizer its summary, source, options, needs and the programs it does not fit, with reasons.

    Args:
        program: Name in the catalog; None means all programs.
        preset: Of that program.

    Raises:
        UserError: The program or the preset is unknown.
    """
    programs = {name: build(name, preset="paper" if program is None else preset) for name in _names(program)}
    rows = {}
    for name, record in OPTIMIZERS.items():
        reasons = {each: record.fits(student, None) for each, student in programs.items()}
        rows[name] = {
            "summary": record.summary,
            "source": record.source,
            "options": {
                option: {
                    "default": about.default,
                    "help": about.help,
                    "low": about.low,
                    "high": about.high,
                    "choices": list(about.choices),
                }
                for option, about in record.options.items()
            },
            "needs": [*(["validation questions"] if record.compares else []), *record.needs],
            "misfits": {each: one_line(reason) for each, reason in reasons.items() if reason},
        }
    return rows


def _names(program: str | None) -> list[str]:
    return list(PROGRAMS) if program is None else [program]
