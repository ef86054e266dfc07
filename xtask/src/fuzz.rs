//! `cargo xtask fuzz`: cargo-fuzz without nightly. Only the address sanitizer needs nightly, and only two
//! small modules have `unsafe`.

use std::fs;

use crate::{Result, cargo, root, run, target_dir, tools};

pub(crate) fn fuzz(target: Option<&str>, seconds: u32) -> Result {
    let path = tools::path_with("cargo-fuzz@0.13.2")?;
    let folder = root().join("fuzz");
    let built = target_dir().join("fuzz");
    for source in fs::read_dir(folder.join("fuzz_targets"))? {
        let name = source?.path().with_extension("");
        let name = name.file_name().unwrap_or_default();
        if target.is_some_and(|target| target != name) {
            continue;
        }
        let corpus = built.join("corpus").join(name);
        fs::create_dir_all(&corpus)?;
        let mut fuzz = cargo("fuzz run --sanitizer none --target-dir");
        fuzz.arg(&built).arg(name).arg(corpus);
        fuzz.args(Some(folder.join("seeds").join(name)).filter(|seeds| seeds.exists()));
        fuzz.args(["--", "-max_len=256", "-verbosity=0", "-print_final_stats=1"]);
        fuzz.arg(format!("-max_total_time={seconds}")).env("PATH", &path);
        run(fuzz)?;
    }
    Ok(())
}
