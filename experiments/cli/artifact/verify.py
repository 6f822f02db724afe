"""`verihop artifact verify`: all checks of loading, without an LM, an index or a question."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli.artifact.own_programs import OwnPrograms
from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, say
from experiments.cli.shared.next_commands import command, naming
from signatures.common.errors import UserError

FAULTY = 2  # exit code


def verify(
    folders: Annotated[list[Path], typer.Argument(metavar="ARTIFACT", help="Folders of artifacts.")],
    as_json: options.Json = False,
    own_programs: OwnPrograms = None,
) -> None:
    """Check that artifacts can be loaded: schema, hashes, signatures, demonstrations, knobs and parts.

    Nothing is executed, and no LM, index or network is needed. The first fault of each artifact is printed with its
    file and field; the exit code is then 2. Hashes show damage, not who wrote the files.
    """
    from programs.artifact import verify as check

    found = []
    for folder in folders:
        try:
            record = check(folder)
            found.append({"artifact": str(folder), "valid": True, "kind": record.kind, "program": record.program})
        except UserError as error:
            found.append({"artifact": str(folder), "valid": False, "fault": str(error)})
    if as_json:
        emit({"valid": all(one["valid"] for one in found), "artifacts": found})
    for one in () if as_json else found:
        if one["valid"]:
            say(f"{one['artifact']}: valid ({one['program']})")
        else:
            note(f"verihop: {one['fault']}")
    if not all(one["valid"] for one in found):
        raise typer.Exit(FAULTY)
    if not as_json:
        next_step(command("verihop", "artifact", "show", folders[0], *naming(*own_programs or ())))
