"""How much each knob and prompt matters for the score, by Optuna's evaluators."""

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import optuna

EVALUATORS = ("fanova", "ped_anova")
_FEWEST = 4  # complete trials


def importances(study: "optuna.Study", *, seed: int = 0) -> dict[str, dict[str, float]]:
    """Return evaluator -> dimension -> importance for the score, most important first; {} with too few trials.

    fANOVA (Hutter et al., ICML 2014, https://proceedings.mlr.press/v32/hutter14.html) explains the score's variance
    over the whole space; PED-ANOVA (Watanabe et al., IJCAI 2023, https://arxiv.org/abs/2304.10255) asks
    what tells the best trials from the others. Only complete trials count: pruned ones have no score on all questions.
    """
    import optuna
    from optuna.importance import FanovaImportanceEvaluator, PedAnovaImportanceEvaluator
    from optuna.trial import TrialState

    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    scores = {trial.values[0] for trial in complete if trial.values}
    if len(complete) < _FEWEST or len(scores) < 2:
        return {}
    found: dict[str, dict[str, float]] = {}
    for name, evaluator in zip(
        EVALUATORS, (FanovaImportanceEvaluator(seed=seed), PedAnovaImportanceEvaluator()), strict=True
    ):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that lower targets count as better, as they do here
                values = optuna.importance.get_param_importances(
                    study, evaluator=evaluator, target=lambda trial: -trial.values[0]
                )
        except (ValueError, RuntimeError):  # too few trials, or only one value of everything
            continue
        found[name] = {dimension: round(float(value), 6) for dimension, value in values.items()}
    return found
