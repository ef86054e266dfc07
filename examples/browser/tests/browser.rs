//! The front end is built, and Chromium shows it.

use std::env;
use std::path::Path;
use std::process::Command;

use opaque_id_tests::Result;
use opaque_id_tests::browser::{DESK, Visit, visit};
use opaque_id_tests::tools::ChildGuard;
use wasm_bindgen_cli_support::Bindgen;

const KEYS: &str = "0:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

#[tokio::test]
async fn the_front_end_shows_orders_and_refuses_a_wrong_id_without_the_server() -> Result {
    let folder = tempfile::tempdir()?;
    build(folder.path())?;
    let mut server = Command::new(env!("CARGO_BIN_EXE_browser"));
    server.envs([("ADDRESS", "127.0.0.1:0"), ("OPAQUE_ID_KEYS", KEYS)]);
    server.env("FRONT_END", folder.path());
    let (_server, address) = ChildGuard::start(server, |line| {
        Some(line.split_once("http://")?.1.trim_end().to_owned())
    })?;
    let url = format!("http://{address}");
    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    visit(DESK, &url.clone(), &shots, |visit| story(visit, url)).await
}

async fn story(visit: Visit, url: String) -> Result {
    let [loom, shuttle] = [shown(&visit, "li:first-child"), shown(&visit, "li:last-child")];
    let (loom, shuttle) = (loom.await?, shuttle.await?);
    let loom = loom.strip_suffix(": loom").ok_or_else(|| loom.clone())?;
    let shuttle = shuttle.strip_suffix(": shuttle").ok_or_else(|| shuttle.clone())?;
    assert!(loom.starts_with("order_") && loom != shuttle);

    visit.client.goto(&format!("{url}/?order={shuttle}")).await?;
    assert_eq!(shown(&visit, "#order:not(:empty)").await?, "shuttle");
    let other = loom.replacen("order", "user", 1);
    visit.client.goto(&format!("{url}/?order={other}")).await?;
    // The browser shows the error of parsing.
    let refused = shown(&visit, "#order:not(:empty)").await?;
    assert!(refused.ends_with("it is an id of another resource"), "{refused}");
    Ok(())
}

/// Returns the text of an element, once there is one.
async fn shown(visit: &Visit, selector: &str) -> Result<String> {
    visit.until(&format!("return document.querySelector('{selector}') !== null")).await?;
    visit.text(selector).await
}

/// Builds the front end like the README's commands.
fn build(folder: &Path) -> Result {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("front-end");
    let mut build = Command::new(env!("CARGO"));
    build
        .args([
            "build",
            "--package=browser",
            "--lib",
            "--locked",
            "--target=wasm32-unknown-unknown",
        ])
        .arg("--target-dir")
        .arg(&target);
    if !build.status()?.success() {
        return Err(
            "expected a compiler for wasm32: rustup target add wasm32-unknown-unknown".into()
        );
    }
    let wasm = target.join("wasm32-unknown-unknown/debug/browser.wasm");
    let mut bindgen = Bindgen::new();
    bindgen.input_path(wasm).web(true)?.omit_default_module_path(false).typescript(false);
    Ok(bindgen.generate(folder)?)
}
