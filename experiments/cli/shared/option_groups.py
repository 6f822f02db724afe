"""Commands take frozen dataclasses of options instead of dozens of parameters; Typer sees the single options."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from copy import copy
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from typer.models import OptionInfo


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return `command` for Typer: each parameter that is a dataclass becomes one option per field.

    A field is declared like a parameter of a Typer command, `name: Annotated[type, typer.Option(...)] = default`, and
    its option is shown in a panel of `--help` titled by the dataclass's `PANEL`. An option with a variable is a setting
    (`experiments.cli.shared.settings`), unless the dataclass names it in `NO_SETTINGS`. The command is called with
    instances of the dataclasses.

    Raises:
        TypeError: Two options have the same name.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if dataclasses.is_dataclass(parameter.annotation)
    }
    flat: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        group = groups.get(parameter.name)
        flat += [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)] if group is None else _options_of(group)
    names = [parameter.name for parameter in flat]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise TypeError(f"{command.__name__} has several options named {', '.join(sorted(repeated))}.")

    @functools.wraps(command)
    def run(**values: Any) -> None:
        arguments = {
            name: group(**{option: values.pop(option) for option in _names(group) if option in values})
            for name, group in groups.items()
        }
        command(**values, **arguments)

    run.__signature__ = signature.replace(parameters=flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run


def _names(group: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(group)]


def _options_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            annotation=_in_panel(
                hints[field.name], group.PANEL, setting=field.name not in getattr(group, "NO_SETTINGS", ())
            ),
        )
        for field in dataclasses.fields(group)
    ]


def _in_panel(hint: Any, panel: str, *, setting: bool) -> Any:
    """Return the annotation with its option shown in a panel of `--help`, and without its variable if it is no setting
    here.
    """
    if get_origin(hint) is not Annotated:
        return hint
    kind, *extras = get_args(hint)
    for place, extra in enumerate(extras):
        if isinstance(extra, OptionInfo):
            extras[place] = copy(extra)
            extras[place].rich_help_panel = panel
            if not setting:
                extras[place].envvar = None
    return Annotated[(kind, *extras)]
