"""Puts one fault after the other into a copy of an implementation, and checks that the kit finds it. README.md describes it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SPEC = Path(__file__).parent
ROOT = SPEC.parent
SOURCES = {"python": "ports/python/src/opaque_id", "typescript": "ports/typescript/src", "rust": "opaque-id-core/src"}
# The dependencies of the core are built once.
TARGET = ROOT / "target/mutants"
RANDOM = "20000"

# The core and a program that answers for it. The whole command takes minutes to build.
ANSWERER = """\
[package]
name = "answerer"
version = "0.1.0"
edition = "2024"
publish = false

[dependencies]
opaque-id-core = { workspace = true, features = ["derive", "serde", "tokens"] }
serde_json.workspace = true
"""
MAIN = """\
mod ours;

fn main() {
    let mut ours = ours::Ours::default();
    for line in std::io::stdin().lines() {
        let request = serde_json::from_str(&line.expect("UTF-8")).expect("JSON");
        println!("{}", match ours.answer(&request) {
            Some(answer) => serde_json::json!({ "ok": answer }),
            None => serde_json::json!({ "refused": true }),
        });
    }
}
"""


def mutations(language):
    return json.loads((SPEC / "mutations" / f"{language}.json").read_text())


class Copy:
    """A copy of an implementation, in a folder that the caller removes."""

    def __init__(self, language, folder):
        self.language, self.folder, self.env = language, Path(folder), dict(os.environ)
        self.source = self.folder / ("opaque_id" if language == "python" else "src")
        self.command = [sys.executable, "-B", "-m", "opaque_id.conformance"]
        if language == "python":
            shutil.copytree(ROOT / SOURCES[language], self.source, dirs_exist_ok=True)
            self.env["PYTHONPATH"] = str(self.folder)
        elif language == "typescript":
            shutil.copytree(ROOT / "ports/typescript", self.folder, dirs_exist_ok=True)
            self.env["NO_COLOR"] = "1"
            beside = Path(sys.executable).with_name("deno")
            self.command = [str(beside) if beside.exists() else "deno", "run", "--no-check", "--allow-all", str(self.folder / "test/conformance.js")]
        else:
            self.workspace()
            self.source = self.folder / SOURCES[language]
            self.command = [str(TARGET / "debug/answerer")]

    def workspace(self):
        for crate in ["opaque-id-core", "opaque-id-derive"]:
            # The files get new times, because cargo does not read older files again.
            ignored = shutil.ignore_patterns("tests", "target")
            shutil.copytree(ROOT / crate, self.folder / crate, ignore=ignored, copy_function=shutil.copyfile)
        for name in ["Cargo.lock", "rust-toolchain.toml"]:
            shutil.copy(ROOT / name, self.folder)
        members = 'members = ["opaque-id-core", "opaque-id-derive", "answerer"]'
        manifest = re.sub(r"members = \[.*?\]", members, (ROOT / "Cargo.toml").read_text(), count=1, flags=re.DOTALL)
        (self.folder / "Cargo.toml").write_text(manifest)
        core = self.folder / "opaque-id-core/Cargo.toml"
        # Its tests need other crates.
        core.write_text(re.sub(r"\[dev-dependencies\]\n.*?\n(?=\[|\Z)", "", core.read_text(), flags=re.DOTALL))
        (self.folder / "answerer/src").mkdir(parents=True, exist_ok=True)
        (self.folder / "answerer/Cargo.toml").write_text(ANSWERER)
        (self.folder / "answerer/src/main.rs").write_text(MAIN)
        ours = (ROOT / "opaque-id-cli/src/conformance/ours.rs").read_text()
        (self.folder / "answerer/src/ours.rs").write_text(ours)

    def build(self):
        if self.language != "rust":
            return
        settings = {"CARGO_INCREMENTAL": "1", "CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_TARGET_DIR": str(TARGET)}
        cargo = ["cargo", "build", "--quiet", "--offline", "--package", "answerer"]
        built = subprocess.run(cargo, cwd=self.folder, env={**self.env, **settings, "RUSTFLAGS": "-Awarnings"}, capture_output=True, text=True)
        if built.returncode != 0:
            raise SystemExit(f"it does not build:\n{built.stderr}")

    def run(self, kit, random):
        """Whether the kit finds a fault, by its exit status, and the requirements that are most likely broken."""
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        command = [kit, "conformance", "--random", random, "--report", str(report), "--", *self.command]
        ran = subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True)
        if ran.returncode == 0:
            return None
        if not report.exists():
            # A fault may end the program, but not before it has answered.
            if not re.search(r"instead of answering request (?!1:)", ran.stderr):
                raise SystemExit(f"it does not answer:\n{ran.stdout}{ran.stderr}")
            return {"it ends"}
        broken = json.loads(report.read_text())["broken"]
        return {found["requirement"] for found in broken if found["likelihood"] == broken[0]["likelihood"]}

    def judge(self, mutation, kit):
        """Returns which of the vectors and the random cases find a mutation, and None if neither does."""
        file = self.source / mutation["file"]
        before = file.read_text()
        after = before
        for old, new in mutation["edits"]:
            if after.count(old) != 1:
                raise SystemExit(f"{mutation['about']}: expected once in {mutation['file']}, found {after.count(old)} times: {old}")
            after = after.replace(old, new)
        file.write_text(after)
        try:
            self.build()
            for by, random in [("vectors", "0"), ("random cases", RANDOM)]:
                requirements = self.run(kit, random)
                if requirements is not None:
                    return by, requirements
            return None, set()
        finally:
            file.write_text(before)


def judged(language, kit, words=()):
    """Yields each mutation with its problem, or None."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(language, folder)
        copy.build()
        if copy.run(kit, "0") is not None:
            raise SystemExit(f"{language}: the kit finds a fault without a mutation")
        for mutation in mutations(language):
            if words and not any(word in mutation["about"] for word in words):
                continue
            by, requirements = copy.judge(mutation, kit)
            if (by is None) != ("survives" in mutation):
                wrong = "it survives" if by is None else "it is found: remove `survives`"
            elif by is not None and not requirements & set(mutation.get("requirements", requirements)):
                wrong = f"expected one of {mutation['requirements']} to be broken, found {sorted(requirements)}"
            else:
                wrong = None
            yield mutation, by, wrong


def main():
    kit, *rest = sys.argv[1:]
    languages = [word for word in rest if word in SOURCES] or list(SOURCES)
    words = [word for word in rest if word not in SOURCES]
    failed = False
    for language in languages:
        counts, start = {}, time.time()
        for mutation, by, wrong in judged(language, str(Path(kit).resolve()), words):
            counts[by] = counts.get(by, 0) + 1
            if wrong or by != "vectors":
                print(f"{language}: {mutation['about']}: {wrong or mutation.get('survives') or 'by random cases only'}", flush=True)
            failed |= wrong is not None
        found = ", ".join(f"{count} found by {by}" if by else f"{count} survive" for by, count in counts.items())
        print(f"{language}: {sum(counts.values())} mutations, {found}, in {time.time() - start:.0f} s", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
