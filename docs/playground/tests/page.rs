//! The page as a file in Chromium, without a server.

use std::path::Path;
use std::process::Command;

use opaque_id_tests::Result;
use opaque_id_tests::browser::{DESK, PHONE, Visit, visit};
use opaque_id_tests::tools::run;
use serde_json::json;
use url::Url;

#[tokio::test]
async fn a_reader_seals_changes_and_rotates_without_a_network() -> Result {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("playground");
    run(Command::new(env!("CARGO_BIN_EXE_playground")).arg(&folder))?;
    let page = Url::from_file_path(folder.join("playground.html")).map_err(|()| "not absolute")?;
    let shots = folder.with_file_name("page-playground");
    visit(PHONE, page.as_str(), &shots, story).await?;
    visit(DESK, page.as_str(), &shots, story).await
}

async fn story(visit: Visit) -> Result {
    opened(&visit, "the key 42, by the secret with key id 0").await?;
    visit.look("1-sealed").await?;
    visit.click("#change").await?;
    opened(&visit, "Refused: ").await?;
    assert_eq!(visit.text("#sent mark").await?.chars().count(), 1);
    visit.look("2-changed").await?;

    visit.click("#back").await?;
    let id = value(&visit, "#id").await?;
    enter(&visit, "#id", &id.to_uppercase()).await?;
    opened(&visit, "is upper case; ids are lower case").await?;
    visit.click("#suggestion").await?;
    opened(&visit, "the key 42").await?;
    enter(&visit, "#id", "42").await?;
    opened(&visit, "looks like an internal key (integer)").await?;

    enter(&visit, "#id", &id).await?;
    visit.click("#rotate").await?;
    opened(&visit, "the key 42, by the secret with key id 0").await?;
    assert_ne!(visit.text("#sealed td:nth-child(2)").await?, id);
    assert_eq!(visit.text("#secrets tr:last-child td:last-child").await?, "seals");
    visit.look("3-rotated").await?;
    visit.click("#retire").await?;
    opened(&visit, "no secret with key id 0").await?;
    visit.look("4-retired").await?;

    for (kind, forms) in [
        ("i32", "text short uuid"),
        ("u32", "text short uuid"),
        ("uuid7", "text tagged uuid"),
        ("ulid", "text tagged"),
        ("structured", "text tagged uuid"),
        ("uuid", "text tagged"),
        ("i64", "text short uuid"),
    ] {
        for form in forms.split(' ') {
            enter(&visit, "#form", form).await?;
            enter(&visit, "#kind", kind).await?;
            let key = visit.text("#sealed td").await?;
            opened(&visit, &format!("the key {key}, by")).await?;
            let rows = "return document.querySelectorAll('#sealed button').length > 1";
            visit.until(rows).await?;
        }
    }
    enter(&visit, "#form", "tagged").await?;
    says(&visit, "#problem", "integers have no tagged form because").await?;
    enter(&visit, "#form", "text").await?;
    enter(&visit, "#keys", &"5c".repeat(32)).await?;
    says(&visit, "#sealed", "it looks like a secret").await?;
    visit.look("5-refused").await?;

    assert_eq!(visit.console().await?, [""; 0]);
    let loaded = "return performance.getEntriesByType('resource').length === 0";
    visit.until(loaded).await
}

async fn opened(visit: &Visit, text: &str) -> Result {
    says(visit, "#opened", text).await
}

async fn says(visit: &Visit, selector: &str, text: &str) -> Result {
    let (selector, text) = (json!(selector), json!(text));
    visit
        .until(&format!("return document.querySelector({selector}).textContent.includes({text})"))
        .await
}

async fn value(visit: &Visit, selector: &str) -> Result<String> {
    let script = format!("return document.querySelector('{selector}').value");
    let value = visit.client.execute(&script, Vec::new()).await?;
    Ok(value.as_str().ok_or("no value")?.to_owned())
}

/// Enters a value, like a reader who pastes or chooses it.
async fn enter(visit: &Visit, selector: &str, value: &str) -> Result {
    let script = "const [selector, value] = arguments, field = document.querySelector(selector);
        field.value = value;
        field.dispatchEvent(new Event(field.tagName === 'SELECT' ? 'change' : 'input'));";
    visit.client.execute(script, vec![json!(selector), json!(value)]).await?;
    Ok(())
}
