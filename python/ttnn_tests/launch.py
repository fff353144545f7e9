"""Runs a ttnn program in an environment without PyTorch: `launch.py PROGRAM.py ARGUMENT…`.

While a graph is captured, ttnn imports torch to check whether an argument is a torch tensor. A stand-in with
an empty `Tensor` class is enough. It must come after `import ttnn`, which looks for the real package. Without
PyTorch, ttnn does not import its tracer either, but asks whether it is on if the fast runtime mode is off.
"""

import runpy
import sys
import types
from pathlib import Path

import ttnn  # before the stand-in

torch = types.ModuleType("torch")
torch.Tensor = type("Tensor", (), {})  # type: ignore[attr-defined]
torch.float32 = None  # type: ignore[attr-defined]
sys.modules.setdefault("torch", torch)
if not hasattr(ttnn, "tracer"):
    ttnn.tracer = types.SimpleNamespace(ENABLE_TRACER=False)

program = sys.argv[1]
sys.argv = sys.argv[1:]
sys.path[0] = str(Path(program).parent)
runpy.run_path(program, run_name="__main__")
