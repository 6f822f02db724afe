"""`verihop artifact`: look at compiled programs, check, compare, export and combine them."""

from experiments.cli.artifact.combine import cascade, ensemble, selective
from experiments.cli.artifact.diff import diff
from experiments.cli.artifact.export import export
from experiments.cli.artifact.show import show, verify
from experiments.cli.shared.app import App

artifact = App(help="Show, check, compare, export and combine compiled programs (artifacts).")
artifact.command("show")(show)
artifact.command("verify")(verify)
artifact.command("diff")(diff)
artifact.command("export")(export)
artifact.command("ensemble")(ensemble)
artifact.command("cascade")(cascade)
artifact.command("selective")(selective)
