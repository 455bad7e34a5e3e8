import subprocess
import sys
from pathlib import Path

import pytest

from vcache_cli.encode.blas_front import BlasFront

PROGRAM = """
from vcache_cli.encode.blas_front import put_blas_in_front
from vcache_cli.errors import ModelError
try:
    front = put_blas_in_front()
    print(front.name, front.reason, sep=";")
except ModelError as error:
    print("refused", error.message, sep=";")
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a Mac has its own")


def run(program: str, *, blas: str = "") -> list[str]:
    """Its output, in an interpreter that has imported nothing yet."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": "", "VCACHE_BLAS": blas},
    )
    return done.stdout.strip().split(";")


def test_a_named_library_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    found = run(PROGRAM, blas=str(tmp_path / "libnone.so"))
    assert found[0] == "refused"
    assert "libnone.so" in found[1]


def test_a_named_library_that_is_no_blas_is_refused() -> None:
    found = run(PROGRAM, blas="libc.so.6")
    assert found[0] == "refused"
    assert "cblas_sgemm" in found[1]


@pytest.mark.needs_mlx
def test_nothing_is_put_in_front_of_an_mlx_that_is_there_already() -> None:
    pytest.importorskip("mlx.core")
    name, reason = run("import mlx.core\n" + PROGRAM, blas="libc.so.6")
    assert name == "bundled"
    assert "imported before" in reason


def test_a_library_is_called_by_its_file() -> None:
    assert BlasFront("/opt/lib/libopenblas.so.0").name == "libopenblas.so.0"
    assert BlasFront(None, "none was found").name == "bundled"
