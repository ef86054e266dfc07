//! `cargo xtask targets`: the core's tests under Miri, on aarch64, and on s390x (big-endian), and builds for
//! browsers, Windows and macOS. It takes too long for each change.

use std::process::Command;

use crate::tools::{self, cargo_of, rustup};
use crate::{Result, cargo, run};

const EMULATED: [(&str, &str); 2] =
    [("aarch64-unknown-linux-gnu", "aarch64"), ("s390x-unknown-linux-gnu", "s390x")];

const COMPILED: [&str; 3] =
    ["wasm32-unknown-unknown", "x86_64-pc-windows-msvc", "aarch64-apple-darwin"];

/// These tests start themselves, like the target `memory`, or a missing program, and QEMU reports that as an
/// exit status instead of an error.
const NOT_EMULATED: &str = "shared::commands_";

pub(crate) fn targets() -> Result {
    tools::debian("install", "targets")?;
    let mut add = rustup("target add");
    add.args(COMPILED).args(EMULATED.map(|(target, _)| target));
    run(add)?;
    for target in COMPILED {
        run(cargo(&format!("check --package=opaque-id-core --locked --target {target}")))?;
    }
    for (target, cpu) in EMULATED {
        let target_variable = target.replace('-', "_").to_uppercase();
        let tests = "--lib --test=core --test=allocation --test=fork";
        let mut test = cargo(&format!(
            "test --package=opaque-id-core --all-features --locked {tests} --target {target} -- --skip {NOT_EMULATED}"
        ));
        test.env(format!("CARGO_TARGET_{target_variable}_LINKER"), format!("{cpu}-linux-gnu-gcc"))
            .env(
                format!("CARGO_TARGET_{target_variable}_RUNNER"),
                format!("qemu-{cpu} -L /usr/{cpu}-linux-gnu"),
            )
            .env("PROPTEST_CASES", "32");
        run(test)?;
    }
    run(rustup("toolchain install nightly --component=miri,rust-src"))?;
    run(miri("--skip hazmat"))?;
    // Miri has the CPU of these flags. It lacks an instruction that the `aes` crate would use.
    let mut instructions = miri("hazmat");
    instructions.env("RUSTFLAGS", "-Ctarget-feature=+aes,+avx --cfg=aes_backend=\"soft\"");
    run(instructions)
}

/// The other tests start processes, request a page that is wiped in a forked child, or generate millions of
/// keys.
fn miri(tests: &str) -> Command {
    let test = format!("miri test --package=opaque-id-core --locked --lib -- {tests}");
    let mut miri = cargo_of("nightly", &test);
    miri.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "4");
    miri
}
