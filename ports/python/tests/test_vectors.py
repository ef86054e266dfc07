"""The vectors of spec/. `opaque-id conformance` also has random cases."""

import json
from pathlib import Path

import pytest

from opaque_id.conformance import answer

VECTORS = [json.loads(line) for line in (Path(__file__).parents[3] / "spec/vectors.jsonl").open(encoding="utf-8")]


@pytest.mark.parametrize("op", sorted({vector["op"] for vector in VECTORS}))
def test_every_vector(op):
    for vector in VECTORS:
        if vector["op"] != op:
            continue
        try:
            found = answer(vector)
        except (ValueError, TypeError):
            found = None
        if vector["answer"] == "opens":
            opening = {**vector, "op": f"open_{op}", "id": found, "now": 0}
            assert answer(opening)["key"] == vector["key"], vector
        else:
            assert found == vector["answer"], vector
