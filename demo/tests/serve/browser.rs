//! The page in Chromium, at a phone's width in dark mode and at a desk's in light mode.

use std::path::Path;

use opaque_id_tests::browser::{DESK, PHONE, Screen, Visit, visit};
use serde_json::json;

use crate::Result;
use crate::server::Server;

#[tokio::test]
async fn on_a_phone_in_the_dark() -> Result {
    run(PHONE).await
}

#[tokio::test]
async fn at_a_desk_in_the_light() -> Result {
    run(DESK).await
}

async fn run(screen: Screen) -> Result {
    let server = Server::start()?;
    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    visit(screen, &server.url, &shots, story).await
}

async fn story(visit: Visit) -> Result {
    visit.until("return document.querySelectorAll('#rows tr').length === 8").await?;
    let first = visit.text("#rows tr:first-child .outside .key").await?;
    let stored = visit.text("#rows tr:first-child .inside .key").await?;
    assert!(stored.starts_with("0000000000000001"), "{stored}");
    assert!(!first.contains(&stored));
    visit.look("1-loaded").await?;

    visit.click("#next").await?;
    visit.until("return document.querySelector('#page').textContent.startsWith('starting_after=order_cursor_')").await?;
    assert_ne!(visit.text("#rows tr:first-child .outside .key").await?, first);
    visit.click("#previous").await?;
    visit.until("return document.querySelector('#page').textContent.startsWith('ending_before=order_cursor_')").await?;
    assert_eq!(visit.text("#rows tr:first-child .outside .key").await?, first);

    visit.look("2-paged").await?;

    visit.click("#rows tr:first-child button").await?;
    answers(&visit, "200 OK", &first).await?;
    visit.click("#tamper").await?;
    answers(&visit, "404 Not Found", r#""status": 404"#).await?;
    assert_eq!(visit.text("#request mark").await?.chars().count(), 1);
    let reason = visit.text("#reason").await?;
    // Orders have no tag, so some altered ids open, and no row has their keys.
    assert!(reason.contains(": no such row.") || reason.contains(": not genuine: "), "{reason}");
    visit.look("3-tampered").await?;

    visit.click("#rotate").await?;
    says(&visit, "The kept id still opens").await?;
    answers(&visit, "200 OK", r#""item": "loom""#).await?;
    let first = json!(first);
    visit
        .until(&format!(
            "return document.querySelector('#rows .outside .key').textContent !== {first}"
        ))
        .await?;
    assert_eq!(visit.text("#rows tr:first-child .inside .key").await?, stored);
    visit.look("4-rotated").await?;

    visit.click("#retire").await?;
    says(&visit, "is refused").await?;
    answers(&visit, "404 Not Found", r#""status": 404"#).await?;
    let reason = visit.text("#reason").await?;
    assert!(reason.contains("no secret with key id 0"), "{reason}");
    visit.look("5-retired").await?;

    for (table, column) in [("customers", "name"), ("invoices", "cents")] {
        visit.click(&format!("[value={table}]")).await?;
        visit
            .until(&format!(
                "return document.querySelector('#rows').textContent.includes('{column}')"
            ))
            .await?;
        visit.click("#tamper").await?;
        answers(&visit, "404 Not Found", r#""status": 404"#).await?;
        visit.click("#client .main").await?;
        answers(&visit, "200 OK", column).await?;
        visit.look(table).await?;
    }
    console_is_quiet(&visit).await
}

async fn answers(visit: &Visit, status: &str, body: &str) -> Result {
    let (status, body) = (json!(status), json!(body));
    visit
        .until(&format!(
            "return document.querySelector('#status').textContent === {status}
            && document.querySelector('#body').textContent.includes({body})"
        ))
        .await
}

async fn says(visit: &Visit, message: &str) -> Result {
    let message = json!(message);
    visit
        .until(&format!(
            "return document.querySelector('#message').textContent.includes({message})"
        ))
        .await
}

/// Checks that the console has only the 404 of each refused id and cursor, because Chromium logs these as
/// errors.
async fn console_is_quiet(visit: &Visit) -> Result {
    let messages = visit.console().await?;
    assert!(!messages.is_empty(), "the log does not work");
    for message in &messages {
        let is_refusal = message.contains("/api/") || message.contains("_cursor_");
        assert!(is_refusal && message.ends_with("404 (Not Found)"), "{messages:#?}");
    }
    Ok(())
}
