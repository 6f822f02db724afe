"""Freeze a compiled program into a folder, and load it for inference.

An artifact is a folder of JSON files. `program.json` is DSPy's state: instructions and demonstrations. `artifact.json`
records its provenance: program and knobs, the fields of every signature, LM, corpus, data, optimizer, metric and
versions. Programs that are combined (an ensemble, a cascade, demonstrations chosen per question) are artifacts of
another kind, with those that they consist of in the folder `children`.

Loading executes nothing from any of these files, and accepts nothing but what `freeze` writes: they may come from a
stranger. The digests in `artifact.json` reveal damage; they do not say who wrote the files, since anybody can compute
them.

Import the public functions of `programs.artifacts` from this module.
"""

from programs.artifacts.combining import combine
from programs.artifacts.freezing import check_freezable, check_module, freeze, freeze_module
from programs.artifacts.loading import load, load_module, needs_similarity, verify
from programs.artifacts.record import Artifact, LMRecord, digest_of, lm_record, read_artifact
from programs.artifacts.state import (
    all_parts,
    children_of,
    program_name,
    reads_nothing,
    retrieves,
    shown_state,
    strategies_of,
)

__all__ = [
    "Artifact",
    "LMRecord",
    "all_parts",
    "check_freezable",
    "check_module",
    "children_of",
    "combine",
    "digest_of",
    "freeze",
    "freeze_module",
    "lm_record",
    "load",
    "load_module",
    "needs_similarity",
    "program_name",
    "read_artifact",
    "reads_nothing",
    "retrieves",
    "shown_state",
    "strategies_of",
    "verify",
]
