"""`verihop programs`: without a word it lists them, with a name it shows one."""

from experiments.cli.programs.check import check
from experiments.cli.programs.show import show
from experiments.cli.shared.app import App, ByName

programs = App(
    cls=ByName,
    help="List the programs with their papers, knobs and call bounds; with a NAME (or module:Class) show one of them.",
    subcommand_metavar="[NAME | check NAME] [--json]",
)
programs.command("show")(show)
programs.command("check")(check)
