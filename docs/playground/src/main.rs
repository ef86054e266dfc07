//! Writes `playground.html` into a folder, `cargo run --package playground -- FOLDER`. The page contains the
//! library, compiled for browsers, so that it also works as a file.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use base64::{Engine, prelude::BASE64_STANDARD};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = env::args_os().nth(1).ok_or("expected the folder to build in")?;
    let folder = Path::new(&folder);
    let build =
        "build --package=playground --lib --locked --profile=dist --target=wasm32-unknown-unknown";
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(build.split(' ')).arg("--target-dir").arg(folder);
    if !cargo.status()?.success() {
        return Err(
            "expected a compiler for wasm32: rustup target add wasm32-unknown-unknown".into()
        );
    }
    let library = fs::read(folder.join("wasm32-unknown-unknown/dist/playground.wasm"))?;
    let page = include_str!("../page.html");
    let page = page.replace("LIBRARY-IN-BASE64", &BASE64_STANDARD.encode(library));
    Ok(fs::write(folder.join("playground.html"), page)?)
}
