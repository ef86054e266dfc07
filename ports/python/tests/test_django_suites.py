"""Django's own tests, whose folder `DJANGO_TESTS` names: that of its source distribution."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif("DJANGO_TESTS" not in os.environ, reason="DJANGO_TESTS names no folder")
def test_django_passes_its_tests_with_opaque_ids():
    folder = Path(__file__).parent
    command = [sys.executable, "-B", "-W", "ignore", folder / "suites/run.py"]
    environment = {**os.environ, "PYTHONPATH": str(folder.parent / "src")}
    ran = subprocess.run(command, cwd=os.environ["DJANGO_TESTS"], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-5000:]
