//! `cargo xtask fuzz`: libFuzzer without nightly. Its flags are stable, except for the address sanitizer's, and only two small modules
//! have `unsafe` for it to look at.

use std::process::Command;

use crate::{Result, cargo, root, run, target_dir};

/// The flags of `cargo fuzz`, less the sanitizer, which needs a nightly compiler and looks for memory
/// errors; here nothing but one module has `unsafe`.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cdebug-assertions -Ccodegen-units=1 \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

pub(crate) fn fuzz(target: Option<&str>, seconds: u32) -> Result {
    let folder = root().join("fuzz");
    let mut targets: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(folder.join("fuzz_targets"))? {
        targets.extend(entry?.path().file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    targets.sort();
    if let Some(target) = target {
        if !targets.iter().any(|name| name == target) {
            return Err(format!("no fuzz target {target}; there are {}", targets.join(", ")).into());
        }
        targets.retain(|name| name == target);
    }

    // With a target of its own, so that the flags stay away from build scripts.
    let host = host()?;
    let target_dir = target_dir().join("fuzz");
    let mut build = cargo(&["build", "--release", "--locked", "--target", &host]);
    build.current_dir(&folder).env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", &target_dir);
    run(build)?;
    let fuzz = |target: &str| -> Result {
        let corpus = target_dir.join("corpus").join(target);
        let artifacts = target_dir.join("artifacts").join(target).join("");
        std::fs::create_dir_all(&corpus)?;
        std::fs::create_dir_all(&artifacts)?;
        let mut fuzz = Command::new(target_dir.join(&host).join("release").join(target));
        fuzz.arg(corpus)
            .args(Some(folder.join("seeds").join(target)).filter(|seeds| seeds.exists()))
            .arg(format!("-artifact_prefix={}", artifacts.display()))
            .arg(format!("-max_total_time={seconds}"))
            .args(["-max_len=256", "-verbosity=0", "-print_final_stats=1"]);
        run(fuzz)
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for targets in targets.chunks(cores) {
        std::thread::scope(|scope| {
            let running: Vec<_> = targets
                .iter()
                .map(|target| scope.spawn(|| fuzz(target).map_err(|error| error.to_string())))
                .collect();
            let mut results = running.into_iter().map(|target| target.join());
            results.try_for_each(|result| result.map_err(|_| "a thread panicked".to_owned())?)
        })?;
    }
    Ok(())
}

fn host() -> Result<String> {
    let version = Command::new("rustc").arg("-vV").current_dir(root()).output()?;
    let version = String::from_utf8(version.stdout)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc -vV does not print a host")?.to_owned())
}
