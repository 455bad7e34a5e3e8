"""The torch backend, where torch need not be there: what it says without importing it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec

import pytest

from vcache_cli.encode import torch_ops
from vcache_cli.encode.exhaustion import as_memory_error
from vcache_cli.errors import ModelError


def test_a_missing_torch_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert "`vcache-cli[torch]`" in str(torch_ops.BACKEND.unavailable())


def test_torch_is_found_without_importing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: ModuleSpec(name, None))
    assert torch_ops.BACKEND.unavailable() is None
    assert "torch" not in sys.modules or importlib.util.find_spec("torch")


def test_asking_what_runs_here_imports_no_torch() -> None:
    """It takes seconds."""
    script = (
        "import sys; from vcache_cli.encode.torch_ops import BACKEND as b; "
        "from vcache_cli.encode.processor import has_nvidia; "
        "b.unavailable(); has_nvidia() or (b.preference(), b.default_dtype()); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_dtype_that_nothing_computes_in_is_refused() -> None:
    with pytest.raises(ModelError, match="BF16, F16, F32, got I8"):
        torch_ops.BACKEND.ops("I8")


@pytest.mark.parametrize(
    "told",
    [
        "CUDA out of memory. Tried to allocate 2 GiB",
        "[metal::malloc] Unable to allocate 4096 bytes",
        "DefaultCPUAllocator: can't allocate memory",
    ],
)
def test_a_backend_without_memory_raises_memory_error(told: str) -> None:
    with pytest.raises(MemoryError), as_memory_error():
        raise RuntimeError(told)


def test_any_other_error_of_a_backend_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="shapes differ"), as_memory_error():
        raise RuntimeError("shapes differ")
