"""OpenVINO, without its telemetry; its entry point is made once in each process and never closed.

To import OpenVINO sends an event to www.google-analytics.com, under a number that it writes into `~/intel`, and each
conversion sends more. What runs offline tells nobody: every module that imports OpenVINO imports this one first.

Its CPU plugin gives the thread that loads it a stack for signal handlers. When a plugin is unloaded, it frees its stack
and puts back the one that it found, which another plugin may have freed by then: the next Ctrl-C, whose handler Python
runs on that stack, would end the process by a segmentation fault (openvino 2026.4, `SigAltStackSetup` in
https://github.com/openvinotoolkit/openvino/blob/master/src/plugins/intel_cpu/src/plugin.cpp).

It also keeps the threads of a model that was deleted for the next one. A fork inherits what it keeps without the
threads, and waits for them when it loads a model: `model_opened` says where a process must not be forked.
"""

import sys
from typing import Any, cast

from signatures.common.per_process import PerProcess

# As if the package of its telemetry were not installed: OpenVINO has a replacement that does nothing.
sys.modules.setdefault("openvino_telemetry", cast(Any, None))


# Of this process or of one that it was forked from: a fork inherits the value.
_opened = False


def note_model() -> None:
    """Note that a model is opened, whoever opens it; `openvino_core` does so itself."""
    global _opened
    _opened = True


def model_opened() -> bool:
    """Return whether OpenVINO has opened a model, so that a fork of this process may wait forever when it opens one."""
    return _opened


def _make() -> Any:
    import openvino

    note_model()
    return openvino.Core()


_core = PerProcess(_make)


def openvino_core() -> Any:
    """Return the `openvino.Core` of this process, which all models share.

    Raises:
        ImportError: OpenVINO is not installed.
    """
    return _core()
