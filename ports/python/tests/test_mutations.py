"""The kit finds faults, and names the requirement that they break. The kit is `opaque-id`; spec/mutate.py puts in all faults."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
KIT = os.environ.get("OPAQUE_ID", str(ROOT / "target" / "debug" / "opaque-id"))
sys.path.insert(0, str(ROOT / "spec"))

from mutate import Copy, mutations  # noqa: E402


@pytest.mark.parametrize("mutation", [m for m in mutations("python") if "requirements" in m], ids=lambda m: m["about"])
def test_a_fault_is_found_and_named(mutation, tmp_path):
    by, requirements = Copy("python", tmp_path).judge(mutation, KIT)
    assert by == "vectors" and requirements & set(mutation["requirements"])
