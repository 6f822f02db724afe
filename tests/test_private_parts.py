"""The private parts of dependencies that are used: a new version without one fails here, and says what would break.

Ruff (SLF001) keeps private attributes out of all modules but `*_private.py`; the last test does so for imports and for
names in strings. The names that LiteLLM's source is read for are in `tests/programs/lms/test_providers.py`.
"""

import ast
import importlib
import inspect
import tomllib
from pathlib import Path

import dspy
import optuna
import pytest
from optuna.samplers import NSGAIISampler, TPESampler
from optuna.storages import InMemoryStorage, RDBStorage
from optuna.trial import TrialState
from sqlalchemy import select

from optimizers.teleprompters.dspy_private import forget_compilation
from optimizers.tuning import optuna_private as private

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MIPRO, UVICORN = "dspy:MIPROv2", "uvicorn.protocols.http.httptools_impl:HttpToolsProtocol"
INSTRUCTIONS, PROTOCOL = "optimizers/teleprompters/instructions", "experiments/service/run.py"
METHODS = [  # method, the module of ours that overrides or calls it, and its parameters
    (f"{MIPRO}._bootstrap_fewshot_examples", f"{INSTRUCTIONS}/mipro.py",
     "program trainset seed teacher num_fewshot_candidates max_bootstrapped_demos max_labeled_demos max_errors "
     "metric_threshold"),
    (f"{MIPRO}._propose_instructions", f"{INSTRUCTIONS}/mipro.py",
     "program trainset demo_candidates view_data_batch_size program_aware_proposer data_aware_proposer "
     "tip_aware_proposer fewshot_aware_proposer num_instruct_candidates"),
    (f"{MIPRO}._optimize_prompt_parameters", f"{INSTRUCTIONS}/mipro.py",
     "program instruction_candidates demo_candidates evaluate valset num_trials minibatch minibatch_size "
     "minibatch_full_eval_steps seed"),
    (f"{MIPRO}._perform_full_evaluation", f"{INSTRUCTIONS}/mipro.py",
     "trial_num adjusted_num_trials param_score_dict fully_evaled_param_combos evaluate valset trial_logs "
     "total_eval_calls score_data best_score best_program study instruction_candidates demo_candidates"),
    ("dspy.teleprompt.gepa.instruction_proposal:InstructionProposer._prepare_examples", f"{INSTRUCTIONS}/gepa.py",
     "examples"),
    ("dspy:JSONAdapter._prepare_response_format", "programs/lms/adapter.py", "lm lm_kwargs signature"),
    (f"{UVICORN}._unset_keepalive_if_required", PROTOCOL, ""),
    (f"{UVICORN}._start_asgi_task", PROTOCOL, "cycle app"),
    ("typer.main:get_command_from_info", "experiments/cli/shared/settings/known.py",
     "command_info pretty_exceptions_short rich_markup_mode"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "module", "parameters"), METHODS, ids=[each[0] for each in METHODS])
def test_a_method_is_there_with_its_parameters(method: str, module: str, parameters: str) -> None:
    where, _, path = method.partition(":")
    found = importlib.import_module(where)
    for name in path.split("."):
        found = getattr(found, name, None)
    assert found is not None, f"{method} is gone; {module} needs it."
    names = [name for name in inspect.signature(found).parameters if name != "self"]
    assert names == parameters.split(), f"{method} has other parameters; see {module}."
    assert path.rpartition(".")[2] in (ROOT / module).read_text(encoding="utf-8")


def test_the_tools_server_has_one_that_takes_streams() -> None:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("x")._lowlevel_server  # `Tools.run_over` in experiments/service/tools.py
    assert list(inspect.signature(server.run).parameters)[:3] == [
        "read_stream",
        "write_stream",
        "initialization_options",
    ]
    assert server.create_initialization_options().server_name == "x"


class Child(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ask = dspy.Predict("question -> answer")


def test_a_compiled_part_of_a_program_shows_its_predictors_again() -> None:
    class Parent(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.child = Child()

    parent = Parent()
    parent.child._compiled = True
    parent.child.forward = None
    assert not parent.predictors(), "DSPy does not read `_compiled` any more: forget_compilation need not reset it."
    forget_compilation(parent.child)
    assert len(parent.predictors()) == 1
    assert "forward" not in vars(parent.child)


def test_optuna_asks_a_storage_with_our_hook_for_dead_trials() -> None:
    class Storage(private.Heartbeat, InMemoryStorage):
        def record_heartbeat(self, trial_id: int) -> None: ...

        def get_heartbeat_interval(self) -> int:
            return 1

        def get_heartbeat_stale_trial_callback(self) -> None: ...

        def stale_trials(self, study_id: int) -> list[int]:
            return [private.trial_id(trial) for trial in self.get_all_trials(study_id, states=(TrialState.RUNNING,))]

    study = optuna.create_study(storage=Storage())
    study.ask()
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        optuna.storages.fail_stale_trials(study)
    assert [trial.state for trial in study.trials] == [TrialState.FAIL], "fail_stale_trials has another hook."


def test_optunas_tables_are_those_of_its_databases(tmp_path: Path) -> None:
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        storage = RDBStorage(f"sqlite:///{tmp_path / 's'}", heartbeat_interval=1)
    study = optuna.create_study(storage=storage)
    trial = study.ask()
    storage.record_heartbeat(private.trial_id(trial))
    with storage.engine.connect() as connection:
        for table in private.TABLES:
            connection.execute(select(table)).all()
        assert connection.execute(select(private.SIGNS.trial_id)).scalars().all() == [private.trial_id(trial)]
        row = connection.execute(select(private.TRIALS.study_id, private.TRIALS.state)).one()
    assert row.state == TrialState.RUNNING


def test_a_waiting_trial_can_be_declared_failed() -> None:
    study = optuna.create_study()
    study.enqueue_trial({})
    private.fail_waiting(study, study.trials[0], "surplus")
    assert study.trials[0].state == TrialState.FAIL
    assert study.trials[0].user_attrs == {"surplus": True}


@pytest.mark.parametrize("kind", [TPESampler, NSGAIISampler])
def test_samplers_keep_the_space_that_they_have_inferred_where_it_is_handed_on(kind: type) -> None:
    one, other = kind(seed=0), kind(seed=1)
    private.pass_search_space(one, other)
    assert other._search_space is one._search_space


def test_what_has_private_parts_in_use_has_an_upper_bound() -> None:
    wanted = {"optuna", "dspy", "typer", "uvicorn", "mcp"}
    extras = PROJECT["project"]["optional-dependencies"]
    stated = [*PROJECT["project"]["dependencies"], *extras["serve"], *extras["tune"]]
    assert wanted <= {line.partition(">")[0] for line in stated if "<" in line}


@pytest.mark.slow
def test_private_names_are_imported_and_spelt_by_the_private_modules_alone() -> None:
    found = []
    for package in ("signatures", "corpora", "programs", "optimizers", "experiments"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.stem.endswith("_private"):
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = []
                if isinstance(node, ast.Import | ast.ImportFrom):
                    names = [
                        *(getattr(node, "module", None) or "").split("."),
                        *(part for each in node.names for part in each.name.split(".")),
                    ]
                elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "setattr", "hasattr"):
                    mine = getattr(node.args[0], "id", "") == "self"
                    names = [each.value for each in node.args[1:2] if isinstance(each, ast.Constant) and not mine]
                found += [f"{path}:{node.lineno} {name}" for name in names if name.startswith("_") and name[:2] != "__"]
    assert not found
