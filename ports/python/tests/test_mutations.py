"""The kit finds faults, and names the requirement that they break. Each fault is an edit of the source; the kit is `opaque-id`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = Path(__file__).parents[1] / "src" / "opaque_id"
KIT = os.environ.get("OPAQUE_ID", str(ROOT / "target" / "debug" / "opaque-id"))

# The file, what is written there, the fault, and the requirements of which one must be the most likely.
FAULTS = {
    "a wrong bit": ("_format.py", "(key & MASK_64) << 64 | tail", "(key & MASK_64) << 64 | tail ^ 1", {"R3.1", "R11.1"}),
    "capital letters": ("_format.py", "    body = text[len(start) :]\n    if len(body) not in", "    body = text[len(start) :].lower()\n    if len(body) not in", {"R3.4"}),
    "a skipped tag": ("_format.py", "if is_genuine else None", "", {"R4.2"}),
    "little-endian": ("_format.py", 'derive("tag", 8), "big")', 'derive("tag", 8), "little")', {"R3.1"}),
    "2^36 is short": ("_format.py", 'if form == "short" and 0 <= key < 1 << 36:', 'if form == "short" and 0 <= key <= 1 << 36:', {"R12.4"}),
    "the alphabet": ("_format.py", '"0123456789abcdefghjkmnpqrstvwxyz"', '"0123456789abcdefghjkmnpqrtsvwxyz"', {"R3.3"}),
    "four rounds for integers": ("_format.py", 'Kind("i64", True, 6', 'Kind("i64", True, 4', {"R5.1"}),
    "no check of the version": ("_format.py", "if uuid & UUID_VERSION != UUID_8:", "if uuid & UUID_VERSION == 0:", {"R5.5"}),
    "a cursor's zeros": ("_format.py", "key = kind.key(decrypt(block), 0)", "key = kind.key(decrypt(block) >> 64 << 64 if kind.is_integer else decrypt(block), 0)", {"R11.8"}),
    "two texts of one integer": ("_format.py", "        if form == \"short\" and key is not None", "        if False and key is not None", {"R12.8"}),
    "grants for ever": ("keyring.py", ">= int.from_bytes(payload", "> int.from_bytes(payload", {"R13.9"}),
    "another label": ("keyring.py", '"audience", name', '"audiences", name', {"R1.7"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_named(fault, tmp_path):
    name, text, edit, requirements = FAULTS[fault]
    shutil.copytree(SOURCE, tmp_path / "opaque_id")
    file = tmp_path / "opaque_id" / name
    assert file.read_text().count(text) == 1
    file.write_text(file.read_text().replace(text, edit))
    report = tmp_path / "report.json"
    kit = [KIT, "conformance", "--random", "0", "--report", str(report), "--", sys.executable, "-m", "opaque_id.conformance"]
    ran = subprocess.run(kit, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    broken = json.loads(report.read_text())["broken"]
    most = [found["requirement"] for found in broken if found["likelihood"] == broken[0]["likelihood"]]
    assert requirements & set(most), broken[:6]
