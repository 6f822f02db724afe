"""`verihop distill`: make training examples, train a small LM on them, export it."""

from experiments.cli.distill.export import export
from experiments.cli.distill.mix import mix
from experiments.cli.distill.plan import plan
from experiments.cli.distill.synthesize import synthesize
from experiments.cli.distill.train import train
from experiments.cli.shared.app import App

distill = App(help="Make training examples from a teacher, train a small LM on them, export it.")
distill.command("synthesize")(synthesize)
distill.command("mix")(mix)
distill.command("train", uses_cache=True)(train)
distill.command("plan", uses_cache=True)(plan)
distill.command("export")(export)
