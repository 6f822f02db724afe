"""OpenVINO, without its telemetry; its entry point is made once in each process and never closed.

To import OpenVINO sends an event to www.google-analytics.com, under a number that it writes into `~/intel`, and each
conversion sends more. What runs offline tells nobody: every module that imports OpenVINO imports this one first.

Its CPU plugin gives the thread that loads it a stack for signal handlers. When a plugin is unloaded, it frees its stack
and puts back the one that it found, which another plugin may have freed by then: the next Ctrl-C, whose handler Python
runs on that stack, would end the process by a segmentation fault (openvino 2026.4, `SigAltStackSetup` in
https://github.com/openvinotoolkit/openvino/blob/master/src/plugins/intel_cpu/src/plugin.cpp).
"""

import sys
from typing import Any, cast

from signatures.common.per_process import PerProcess

# As if the package of its telemetry were not installed: OpenVINO has a replacement that does nothing.
sys.modules.setdefault("openvino_telemetry", cast(Any, None))


def _make() -> Any:
    import openvino

    return openvino.Core()


_core = PerProcess(_make)


def openvino_core() -> Any:
    """Return the `openvino.Core` of this process, which all models share.

    Raises:
        ImportError: OpenVINO is not installed.
    """
    return _core()
