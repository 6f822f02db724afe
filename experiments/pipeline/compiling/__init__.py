"""Parts of `experiments/pipeline/compile.py`."""
