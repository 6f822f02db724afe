"""Put a trained adapter into the package: `python -m experiments.papers.retriever.adopt FOLDER/query.safetensors`.

Its metadata name the model that it was trained for, so that it is merged into no other, and what it was trained on.
"""

import argparse
import json
from pathlib import Path

from safetensors import safe_open
from safetensors.numpy import load_file

from corpora.encoders.low_rank import ABOUT, save
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.multihop import ADAPTER


def adopt(trained: Path, out: Path, **about: object) -> None:
    """Write the adapter as the package has it."""
    with safe_open(trained, framework="numpy") as file:
        stated = json.loads((file.metadata() or {})[ABOUT])
    save(out, load_file(trained), **{**stated, **about, "base": Embedder().weights_hash})


def main() -> None:
    """Copy with the paths of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trained", type=Path)
    parser.add_argument("--data", type=Path, help="counts.json of the training data")
    parser.add_argument("--out", type=Path, default=ADAPTER)
    arguments = parser.parse_args()
    about = {"data": json.loads(arguments.data.read_text(encoding="utf-8"))} if arguments.data else {}
    adopt(arguments.trained, arguments.out, licence="Apache-2.0", **about)


if __name__ == "__main__":
    main()
