"""Models that rerank, by folder or name: cross-encoders and late interaction, as sentence-transformers loads them.

Late interaction (ColBERT; Khattab and Zaharia, SIGIR 2020, https://arxiv.org/abs/2004.12832) gives each token of
question and passage a vector; a score is the sum, over the question's tokens, of the best similarity with a token of
the passage. Which of the two a model is, its files say.
"""

import functools
import json
import math
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from corpora.encoders.query_vectors import QueryVectors
from corpora.encoders.torch_encoder import hash_weights
from corpora.retrievers.rerank_features import Pool
from signatures.common.errors import UserError, needing, one_line
from signatures.common.files import sha256_text, utf8
from signatures.common.http import hub_answers

BATCH = 32  # texts, or pairs of them, per forward pass
LATE_DEPTH = 100  # passages that late interaction reranks: each is encoded once for all questions
TOKEN_BYTES = 256_000_000  # of passages' token vectors that a model keeps: 8,000 passages of 120 tokens of 128 numbers
Kind = Literal["cross-encoder", "late-interaction"]

_ON_HUB = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
_CURE = (
    "give own, own-light, lm, none, a model folder, or the name of a cross-encoder or ColBERT model of "
    "sentence-transformers"
)


def named_model(name: str) -> str:
    """Return the absolute path of a model folder, or a name on the hub as it is; nothing is loaded or downloaded.

    Raises:
        UserError: It is neither: no such folder, and no organization and model separated by a slash.
    """
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        return str(folder.absolute())
    if _ON_HUB.fullmatch(name):
        return name
    raise UserError(f"Reranker {name!r} cannot be loaded (there is no such folder): {_CURE} (organization/model).")


class ModelScorer:
    """Scores each candidate by the question and its title and text. Thread-safe; the model cuts and prefixes texts.

    Args:
        model: A local folder or the name of a model on the hub, loaded at the first use: a cross-encoder with one
            output, or a late-interaction model.
        kept_bytes: Of the token vectors of passages that are kept for further questions.
    """

    def __init__(self, model: str, *, kept_bytes: int = TOKEN_BYTES):
        self._source = model
        self._model: Any = None
        self._lock = threading.RLock()
        self._documents = QueryVectors(self._encode, kept_bytes=kept_bytes)

    @functools.cached_property
    def kind(self) -> Kind:
        """What the files of the model say it is; a model on the hub is asked for two of them.

        Raises:
            UserError: It cannot be found, or is neither.
        """
        with needing("torch", "A reranking model"):
            found = self._read("config_sentence_transformers.json"), self._read("config.json")
        return _kind_of(self._source, self._read("modules.json"), *found)

    @property
    def depth(self) -> int | None:
        """Passages that are reranked if nothing else is said; None leaves it to the reranker."""
        return LATE_DEPTH if self.kind == "late-interaction" else None

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return a hash of weights, prompts, lengths and the other settings of the model; loads it."""
        model = self.load()
        modules = [module.get_config_dict() for module in model if hasattr(module, "get_config_dict")]
        names = ("prompts", "default_prompt_name", "max_seq_length", "similarity_fn_name")
        settings = [modules, *(getattr(model, name, None) for name in names)]
        read = json.dumps(settings, sort_keys=True, default=str)
        return f"{self.kind}:{sha256_text(hash_weights(model) + read)[:16]}"

    def __call__(self, query: str, pool: Pool) -> Sequence[float]:
        """Return the model's output for each candidate.

        Raises:
            UserError: The model cannot be loaded, has several outputs, fails, or gives a score that is not a number.
        """
        texts = [utf8(f"{passage.title}: {passage.text}".removeprefix(": ")) for passage in pool.candidates]
        if not texts:
            return []
        score = self._late if self.kind == "late-interaction" else self._cross
        try:
            scores = [float(each) for each in score(utf8(query), texts)]
        except UserError:
            raise
        except (RuntimeError, ValueError, LookupError) as error:  # memory, or a model that does not fit its tokenizer
            raise self._failure(error, "score") from error
        if not all(map(math.isfinite, scores)):
            raise UserError(f"Reranker {self._source!r} gives scores that are not numbers: choose another model.")
        return scores

    def _cross(self, query: str, texts: Sequence[str]) -> Any:
        with self._lock:  # fast tokenizers change their padding in place and are not thread-safe
            pairs = [(query, text) for text in texts]
            return self.load().predict(pairs, batch_size=BATCH, show_progress_bar=False)

    def _late(self, query: str, texts: Sequence[str]) -> Any:
        import torch

        with self._lock:
            asked = self.load().encode_query([query], show_progress_bar=False, convert_to_numpy=True)
        documents = [torch.from_numpy(each.astype(np.float32)) for each in self._documents.each(texts)]
        return self.load().similarity([torch.from_numpy(asked[0])], documents)[0].tolist()

    def _encode(self, texts: Sequence[str]) -> Any:
        """Return the vectors of the tokens of each passage, shape (tokens, d), in half the memory that they come in."""
        with self._lock:
            found = self.load().encode_document(
                list(texts), batch_size=BATCH, show_progress_bar=False, convert_to_numpy=True
            )
        return [each.astype(np.float16) for each in found]

    def load(self) -> Any:
        """Return the model, which the first use loads.

        Raises:
            UserError: It cannot be loaded, or has more than one output.
        """
        with self._lock:
            if self._model is None:
                self._model = self._open()
            return self._model

    def _open(self) -> Any:
        kind = self.kind
        from sentence_transformers import CrossEncoder, MultiVectorEncoder
        from transformers.utils import logging

        logging.disable_progress_bar()
        opened = CrossEncoder if kind == "cross-encoder" else MultiVectorEncoder
        try:
            model: Any = opened(self._source, local_files_only=self._is_local)
        except UserError:
            raise
        except (OSError, ValueError, KeyError) as error:
            raise self._failure(error) from error
        if kind == "cross-encoder" and model.num_labels != 1:
            raise UserError(
                f"Reranker {self._source!r} has {model.num_labels} outputs: choose a cross-encoder with one, "
                "the relevance."
            )
        return model

    @functools.cached_property
    def _is_local(self) -> bool:
        return Path(self._source).is_dir() or not hub_answers()

    def _read(self, name: str) -> Any:
        """Return the JSON of a file of the model; None if it has none."""
        from sentence_transformers.util import load_file_path

        try:
            path = load_file_path(self._source, name, local_files_only=self._is_local)
            return None if path is None else json.loads(Path(path).read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception, do: str = "be loaded") -> UserError:
        return UserError(f"Reranker {self._source!r} cannot {do} ({one_line(error)}): {_CURE}.")


def _kind_of(source: str, modules: Any, settings: Any, config: Any) -> Kind:
    """Return what a model is, given its files: without a head for reranking it would get one of random numbers."""
    settings, config = (each if isinstance(each, dict) else {} for each in (settings, config))
    if modules is None and not config:
        raise UserError(f"Reranker {source!r} cannot be loaded (no config.json was found): {_CURE}.")
    made = settings.get("model_type")
    heads = [str(each) for each in config.get("architectures") or []]
    if made in ("MultiVectorEncoder", "ColBERT") or "HF_ColBERT" in heads or "query_prefix" in settings:
        return "late-interaction"
    if made == "CrossEncoder" or (
        modules is None and any(each.endswith(("ForSequenceClassification", "ForCausalLM")) for each in heads)
    ):
        return "cross-encoder"
    what = made or ("SentenceTransformer" if modules is not None else ", ".join(heads) or "unknown kind")
    raise UserError(
        f"Reranker {source!r} is not a model that reranks ({what}): {_CURE}; an embedder is named when an index is "
        "built."
    )
