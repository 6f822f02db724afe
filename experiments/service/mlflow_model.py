"""A compiled program as a model of MLflow (extra `mlflow`), which `mlflow.pyfunc.load_model` loads and serves.

MLflow keeps four lines of code and the files of the artifact (and of the index, if they are to travel with it): nothing
is pickled. Loading checks them as `verihop.load` does.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.analysis.export.mlflow_store import EXPERIMENT, using_store
from experiments.pipeline import setup
from experiments.pipeline.opened import load
from experiments.pipeline.setup import lm_config, with_artifact_defaults
from experiments.runs.specs import ProgramSpec
from experiments.service.answering import as_answer
from programs.artifact import read_artifact, verify
from programs.catalog import typed_program
from programs.lms.spec import LMSpec
from programs.parts.prediction import make_prediction
from signatures.common.errors import UserError, needing
from signatures.common.secrets import without_userinfo

with needing("mlflow", "A model of MLflow"):
    from mlflow.pyfunc import PythonModel

ARTIFACT, INDEX = "artifact", "index"  # names of folders in the model
# What `load_model(uri, model_config={...})` may set in place of what was logged.
CONFIG = ("index", "retriever", "rerank", "lm", "api_base", "program")
_CODE = """import mlflow
from verihop.experiments.service.mlflow_model import AnsweringModel

mlflow.models.set_model(AnsweringModel())
"""


@dataclass(frozen=True)
class LoggedModel:
    """A model in a store.

    Args:
        uri: For `mlflow.pyfunc.load_model` and `mlflow models serve`.
        run_id: Of MLflow.
        index: Of the index: "copied", the absolute path that the model names, or None if it has none.
    """

    uri: str
    run_id: str
    experiment: str
    store: str
    index: str | None


class AnsweringModel(PythonModel):
    """Answers questions with a compiled program."""

    def load_context(self, context: Any) -> None:
        """Open the program with the files of the model and its configuration (`CONFIG`)."""
        settings = {name: value for name in CONFIG if (value := (context.model_config or {}).get(name)) is not None}
        if (program := settings.pop("program", None)) is not None:
            typed_program(program)  # imported, so that an artifact that holds it can be loaded
        lm, api_base = settings.pop("lm", None), settings.pop("api_base", None)
        index = settings.pop("index", None) or context.artifacts.get(INDEX)
        spec = ProgramSpec(artifact=Path(context.artifacts[ARTIFACT]), program=program, **settings)
        connection = lm if api_base is None else setup.open_lm(lm_config(lm or _lm_of(spec), api_base=api_base))
        self.program = load(spec, index=index, lm=connection)

    # MLflow warns of a return type with values of any type, and of none at all it does not.
    def predict(self, context: Any, model_input: list[str], params: Any = None):  # type: ignore[no-untyped-def]
        """Return for each question what `POST /v1/answers` of the service does, without costs.

        `error` is why a question has no answer, in one line; None if it has.
        """
        found = self.program.batch(list(model_input))
        unanswered = make_prediction("", stop_reason=None)
        return [{**as_answer(each.prediction or unanswered), "error": each.error} for each in found]


def _lm_of(spec: ProgramSpec) -> str:
    recorded = read_artifact(spec.artifact).lm if spec.artifact is not None else None
    if recorded is None:
        raise UserError("The artifact names no LM: name it in model_config (lm).")
    return recorded.id


def log_model(
    artifact: Path,
    store: str,
    *,
    index: Path | None = None,
    copy_index: bool = False,
    experiment: str = EXPERIMENT,
    registered: str | None = None,
) -> LoggedModel:
    """Write a compiled program to an MLflow store as a model, in a new MLflow run.

    Args:
        artifact: Its folder, which is copied.
        store: Address, such as `sqlite:///mlflow.db` or `http://localhost:5000`.
        index: What it retrieves from; by default the index that the artifact names.
        copy_index: Copy the index into the model; else the model names its absolute path.
        experiment: Made if there is none of that name.
        registered: Name under which the model is also registered.

    Raises:
        UserError: The extra is not installed, the artifact or the index cannot be used, or the store cannot.
    """
    record = verify(artifact)
    found = with_artifact_defaults(ProgramSpec(artifact=artifact, index=index), LMSpec(id="simulated"))[0].index
    if found is not None and not (found / "index.json").is_file():
        raise UserError(f"{found} contains no complete index: build it with `verihop index`.")
    if copy_index and found is None:
        raise UserError(f"{artifact} names no index to copy: give one (index).")
    named = None if found is None or copy_index else str(found.resolve())
    folders = {ARTIFACT: artifact.resolve(), **({INDEX: found.resolve()} if copy_index and found is not None else {})}
    if len({folder.name for folder in folders.values()}) < len(folders):
        raise UserError(f"MLflow keeps folders by name, and artifact and index are both {artifact.name}: rename one.")
    with using_store(store, experiment) as (_, experiment_id), tempfile.TemporaryDirectory() as temporary:
        import mlflow

        code = Path(temporary) / "model.py"
        code.write_text(_CODE, encoding="utf-8")
        with mlflow.start_run(experiment_id=experiment_id, run_name=artifact.resolve().name) as run:
            logged = mlflow.pyfunc.log_model(
                name="program",
                python_model=str(code),
                artifacts={name: str(folder) for name, folder in folders.items()},
                model_config={name: named if name == "index" else None for name in CONFIG},
                pip_requirements=["verihop[mlflow]"],
                registered_model_name=registered,
                metadata={"program": record.program, "corpus": record.corpus, "lm": record.lm and record.lm.id},
            )
    where = "copied" if copy_index else named
    return LoggedModel(logged.model_uri, run.info.run_id, experiment, without_userinfo(store), where)
