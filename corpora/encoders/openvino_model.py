"""Conversion of sentence-transformers models to OpenVINO, kept in the cache folder.

A conversion is a folder `embedders/<weights hash>-<version of OpenVINO>-<format>` with the model, its tokenizer and a
list of digests. It is written completely or not at all, and rebuilt when it is damaged. A BERT with mean pooling, as
the default model is, is built from its weights (`bert_graph.py`); what torch converts is compared with torch before it
is used. Opening a conversion needs neither torch nor sentence-transformers.
"""

import contextlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from corpora.encoders.bert_graph import OtherForm, bert_graph, bert_tokenizer
from corpora.encoders.low_rank import LowRank
from corpora.encoders.openvino_encoder import OpenVinoEncoder
from corpora.encoders.torch_encoder import TorchEncoder, load_model
from signatures.common.errors import UserError
from signatures.common.files import cache_dir, sha256_file, share, temporary_folder
from signatures.common.strict_json import read_strict_json

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

FORMAT = 2  # changes with what is written here
MODEL, WEIGHTS, TOKENIZER, LIST = "model.xml", "model.bin", "tokenizer.json", "files.json"
SAME = 0.999_999  # cosine of the two vectors of a text, at least
# Texts that a conversion must encode as torch does: short, empty, spaced, cut, accented, with special tokens.
_PROBES = (
    "Who wrote it?",
    "",
    "  The river\tends in\na lake. ",
    "In which country does the river end that flows through the town where the author was born? " * 40,
    "Zürich, 東京, naïve 😀 [MASK] [SEP]",
    "WHICH FILM CAME OUT FIRST, Kistimaat or Vaaranam Aayiram?",
)


class NotConvertible(Exception):
    """The model cannot be converted, or its conversion gives other vectors; torch serves it."""


def open_converted(
    folder: Path, weights_hash: str, *, precision: str, threads: int, batch_size: int, adapter: LowRank | None = None
) -> OpenVinoEncoder:
    """Return the encoder of the model in `folder`, converting it if the cache folder has no sound conversion.

    Args:
        folder: A sentence-transformers model.
        weights_hash: Of its files; names the conversion.
        precision: As for `OpenVinoEncoder`.
        threads: As for `OpenVinoEncoder`.
        batch_size: As for `OpenVinoEncoder`.
        adapter: Merged into the weights; `weights_hash` must change with it.

    Raises:
        NotConvertible: OpenVINO is missing or too old, or the conversion fails or differs from torch.
        UserError: The adapter does not fit the model.
    """
    try:
        release = version("openvino")
    except ImportError as error:
        raise NotConvertible(str(error)) from error
    home = cache_dir() / "embedders"
    target = home / f"{weights_hash[:32]}-{release.replace('/', '_')}-{FORMAT}"
    options: dict[str, Any] = {"precision": precision, "threads": threads, "batch_size": batch_size}
    if _is_sound(target):
        with contextlib.suppress(Exception):  # damaged in a way that the digests do not show: convert anew
            return OpenVinoEncoder(target / MODEL, target / TOKENIZER, **options)
    with contextlib.ExitStack() as stack:
        try:
            home.mkdir(parents=True, exist_ok=True)
            part = stack.enter_context(temporary_folder(home, f".{target.name}."))
        except OSError:  # a cache folder that cannot be written: convert for this process alone
            part = stack.enter_context(temporary_folder(tempfile.gettempdir(), "verihop-embedder-"))
            home = target
        try:
            _convert(folder, part, adapter)
            if home is not target:
                _put(part, target)
            place = target if _is_sound(target) else part
            return OpenVinoEncoder(place / MODEL, place / TOKENIZER, **options)
        except (NotConvertible, UserError):
            raise
        except Exception as error:  # OpenVINO raises RuntimeError and others for what it cannot convert
            raise NotConvertible(str(error)) from error


def _is_sound(target: Path) -> bool:
    try:
        digests = read_strict_json(target / LIST)
        return isinstance(digests, dict) and digests == {
            name: sha256_file(target / name) for name in (MODEL, WEIGHTS, TOKENIZER)
        }
    except (OSError, ValueError):
        return False


def _put(part: Path, target: Path) -> None:
    """Move a conversion to its place, unless another process has put one there; delete those of older versions."""
    if target.exists() and not _is_sound(target):
        shutil.rmtree(target, ignore_errors=True)
    with contextlib.suppress(OSError):
        share(part)
        part.rename(target)
    weights = target.name.partition("-")[0]
    for older in target.parent.glob(f"{weights}-*"):
        if older != target:
            shutil.rmtree(older, ignore_errors=True)


def _convert(folder: Path, part: Path, adapter: LowRank | None) -> None:
    """Write the conversion of the model in `folder` into the empty folder `part`."""
    try:
        _write(part, bert_graph(folder, adapter), bert_tokenizer(folder))
    except OtherForm as error:
        if adapter is not None:
            raise NotConvertible(str(error)) from error
        _convert_by_torch(folder, part)
    digests = {name: sha256_file(part / name) for name in (MODEL, WEIGHTS, TOKENIZER)}
    (part / LIST).write_text(json.dumps(digests) + "\n", encoding="utf-8")


def _write(part: Path, model: Any, tokenizer: str) -> None:
    import openvino

    (part / TOKENIZER).write_text(tokenizer, encoding="utf-8")
    openvino.save_model(model, part / MODEL, compress_to_fp16=False)


def _convert_by_torch(folder: Path, part: Path) -> None:
    model = load_model(folder.name, folder, "cpu").eval()
    _write(part, _traced(model), _tokenizer(model))
    difference = _least_cosine(model, OpenVinoEncoder(part / MODEL, part / TOKENIZER, precision="f32", threads=1))
    if difference < SAME:
        raise NotConvertible(f"a vector of OpenVINO has a cosine of {difference:.7f} with that of torch")


def _tokenizer(model: "SentenceTransformer") -> str:
    from tokenizers import Tokenizer

    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    limit = model.max_seq_length
    if not isinstance(backend, Tokenizer) or not limit:
        raise NotConvertible("it has no tokenizer of the tokenizers library, or no limit of tokens")
    tokenizer = Tokenizer.from_str(backend.to_str())
    tokenizer.enable_truncation(int(limit))
    tokenizer.enable_padding(pad_id=int(model.tokenizer.pad_token_id), pad_token=str(model.tokenizer.pad_token))
    return tokenizer.to_str()


def _traced(model: "SentenceTransformer") -> Any:
    import openvino
    import torch
    from transformers.utils import logging

    features = model.preprocess(["Who wrote it?", "In which country does the river end?"])
    names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in features]

    class Whole(torch.nn.Module):
        """All modules of the model: transformer, pooling, normalisation."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: Any) -> Any:
            return self.model(dict(zip(names, tensors, strict=True)))["sentence_embedding"]

    verbosity = logging.get_verbosity()
    with torch.no_grad(), warnings.catch_warnings(), contextlib.ExitStack() as after:
        # The tracer warns about branches on shapes; the probes show whether they matter.
        warnings.simplefilter("ignore")
        logging.set_verbosity_error()
        after.callback(logging.set_verbosity, verbosity)
        converted = openvino.convert_model(
            Whole(),
            example_input=tuple(features[name] for name in names),
            input=[openvino.PartialShape([-1, -1])] * len(names),
        )
    for port, name in zip(converted.inputs, names, strict=True):
        port.get_tensor().set_names({name})
    return converted


def _least_cosine(model: "SentenceTransformer", encoder: OpenVinoEncoder) -> float:
    """Return the least cosine of the two models' vectors of a probe, encoded together and alone."""
    theirs = TorchEncoder(model, 32)(_PROBES)
    both: Sequence[np.ndarray] = (encoder(_PROBES), np.concatenate([encoder([probe]) for probe in _PROBES]))
    norms = np.linalg.norm(theirs, axis=1)
    return min(
        float(((ours * theirs).sum(axis=1) / (np.linalg.norm(ours, axis=1) * norms)).min(initial=1.0)) for ours in both
    )
