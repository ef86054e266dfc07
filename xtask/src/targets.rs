//! `cargo xtask targets`: the core's tests under Miri, on aarch64, and on s390x, whose first byte is the most significant; and a
//! build for browsers. It takes too long for each change.

use std::process::Command;

use crate::tools::{cargo_of, rustup};
use crate::{Result, cargo, libraries, run};

/// Rust's name of a target, and Debian's and QEMU's of its CPU.
const EMULATED: [(&str, &str); 2] =
    [("aarch64-unknown-linux-gnu", "aarch64"), ("s390x-unknown-linux-gnu", "s390x")];

const BROWSERS: &str = "wasm32-unknown-unknown";

/// QEMU cannot run these: they start themselves, as the target `memory` does, or a program that does not exist, which is an exit
/// status there and no error.
const NOT_EMULATED: &str = "shared::commands_";

pub(crate) fn targets() -> Result {
    libraries::install_emulators()?;
    let mut add = rustup(&["target", "add", BROWSERS]);
    add.args(EMULATED.map(|(target, _)| target));
    run(add)?;
    run(cargo(&["check", "--package=opaque-id-core", "--locked", "--target", BROWSERS]))?;
    for (target, cpu) in EMULATED {
        let target_variable = target.replace('-', "_").to_uppercase();
        let mut test = cargo(&["test", "--package=opaque-id-core", "--all-features", "--locked"]);
        test.args(["--lib", "--test=core", "--test=allocation", "--test=fork", "--target", target])
            .args(["--", "--skip", NOT_EMULATED])
            .env(format!("CARGO_TARGET_{target_variable}_LINKER"), format!("{cpu}-linux-gnu-gcc"))
            .env(
                format!("CARGO_TARGET_{target_variable}_RUNNER"),
                format!("qemu-{cpu} -L /usr/{cpu}-linux-gnu"),
            )
            .env("PROPTEST_CASES", "32");
        run(test)?;
    }
    run(rustup(&["toolchain", "install", "nightly", "--component=miri,rust-src"]))?;
    run(miri(&["--skip", "hazmat"]))?;
    // Miri has the CPU of these flags. The `aes` crate would use an instruction that it has not.
    let mut instructions = miri(&["hazmat"]);
    instructions.env("RUSTFLAGS", "-Ctarget-feature=+aes,+avx --cfg=aes_backend=\"soft\"");
    run(instructions)
}

/// The other tests start processes, ask for a page that is wiped in a forked child, or generate keys by the million.
fn miri(tests: &[&str]) -> Command {
    let test = ["miri", "test", "--package=opaque-id-core", "--locked", "--lib", "--"];
    let mut miri = cargo_of("nightly", &test);
    miri.args(tests).env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "4");
    miri
}
