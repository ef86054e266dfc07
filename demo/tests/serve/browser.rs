//! The page in Chromium, at a phone's width in dark mode and at a desk's in light mode.

use std::path::Path;
use std::time::Duration;

use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use opaque_id_tests::tools::chromedriver;
use serde_json::{Value, json};
use ureq::http::Method;
use url::{ParseError, Url};

use crate::Result;
use crate::server::Server;

struct Screen {
    name: &'static str,
    width: u32,
    height: u32,
    is_phone: bool,
    scheme: &'static str,
}

#[test]
fn on_a_phone_in_the_dark() -> Result {
    visit(Screen { name: "phone", width: 390, height: 844, is_phone: true, scheme: "dark" })
}

#[test]
fn at_a_desk_in_the_light() -> Result {
    visit(Screen { name: "desk", width: 1280, height: 800, is_phone: false, scheme: "light" })
}

/// A command that only Chromium's driver has.
#[derive(Debug)]
struct Extension(&'static str, Value);

impl WebDriverCompatibleCommand for Extension {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> std::result::Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.0))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.1.to_string()))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn visit(screen: Screen) -> Result {
    let server = Server::start()?;
    let (_driver, port) = chromedriver()?;
    let mut options = json!({
        // Tests may run as root, so there is no sandbox.
        "args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--no-proxy-server",
            format!("--window-size={},{}", screen.width, screen.height)],
    });
    if screen.is_phone {
        // A window has at least 500 pixels.
        options["mobileEmulation"] = json!({
            "deviceMetrics": { "width": screen.width, "height": screen.height, "pixelRatio": 2, "touch": true },
        });
    }
    let capabilities = json!({
        "goog:chromeOptions": options,
        "goog:loggingPrefs": { "browser": "ALL" },
    });
    let Value::Object(capabilities) = capabilities else {
        return Err("not an object".into());
    };
    let client = ClientBuilder::new(HttpConnector::new())
        .capabilities(capabilities)
        .connect(&format!("http://127.0.0.1:{port}"))
        .await?;
    let visit = Visit { client: client.clone(), screen };
    let url = server.url.clone();
    let done = tokio::spawn(async move { visit.story(&url).await }).await;
    // The browser is closed even after a panic, because a killed driver leaves it running.
    client.close().await?;
    done?
}

struct Visit {
    client: Client,
    screen: Screen,
}

impl Visit {
    async fn story(&self, url: &str) -> Result {
        let scheme = json!([{ "name": "prefers-color-scheme", "value": self.screen.scheme }]);
        let emulate =
            json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "features": scheme } });
        self.client.issue_cmd(Extension("goog/cdp/execute", emulate)).await?;
        self.client.goto(url).await?;

        self.until("return document.querySelectorAll('#rows tr').length === 8").await?;
        let first = self.text("#rows tr:first-child .outside .key").await?;
        let stored = self.text("#rows tr:first-child .inside .key").await?;
        assert!(stored.starts_with("0000000000000001"), "{stored}");
        assert!(!first.contains(&stored));
        self.look("1-loaded").await?;

        self.click("#next").await?;
        self.until("return document.querySelector('#page').textContent.startsWith('starting_after=order_cursor_')").await?;
        assert_ne!(self.text("#rows tr:first-child .outside .key").await?, first);
        self.click("#previous").await?;
        self.until("return document.querySelector('#page').textContent.startsWith('ending_before=order_cursor_')").await?;
        assert_eq!(self.text("#rows tr:first-child .outside .key").await?, first);

        self.look("2-paged").await?;

        self.click("#rows tr:first-child button").await?;
        self.answers("200 OK", &first).await?;
        self.click("#tamper").await?;
        self.answers("404 Not Found", r#""status": 404"#).await?;
        assert_eq!(self.text("#request mark").await?.chars().count(), 1);
        self.look("3-tampered").await?;

        self.click("#rotate").await?;
        self.says("The kept id still opens").await?;
        self.answers("200 OK", r#""item": "loom""#).await?;
        let first = json!(first);
        self.until(&format!(
            "return document.querySelector('#rows .outside .key').textContent !== {first}"
        ))
        .await?;
        assert_eq!(self.text("#rows tr:first-child .inside .key").await?, stored);
        self.look("4-rotated").await?;

        self.click("#retire").await?;
        self.says("is refused").await?;
        self.answers("404 Not Found", r#""status": 404"#).await?;
        self.look("5-retired").await?;

        for (table, column) in [("customers", "name"), ("invoices", "cents")] {
            self.click(&format!("[value={table}]")).await?;
            self.until(&format!(
                "return document.querySelector('#rows').textContent.includes('{column}')"
            ))
            .await?;
            self.click("#tamper").await?;
            self.answers("404 Not Found", r#""status": 404"#).await?;
            self.click("#client .main").await?;
            self.answers("200 OK", column).await?;
            self.look(table).await?;
        }
        self.console_is_quiet().await
    }

    async fn click(&self, selector: &str) -> Result {
        Ok(self.client.find(Locator::Css(selector)).await?.click().await?)
    }

    async fn text(&self, selector: &str) -> Result<String> {
        Ok(self.client.find(Locator::Css(selector)).await?.text().await?)
    }

    /// Waits until a script returns true.
    async fn until(&self, script: &str) -> Result {
        for _ in 0..400 {
            if self.client.execute(script, Vec::new()).await? == true {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        let page = self.text("body").await?;
        Err(format!("{script}: not within 10 seconds; the page is\n{page}").into())
    }

    async fn answers(&self, status: &str, body: &str) -> Result {
        let (status, body) = (json!(status), json!(body));
        self.until(&format!(
            "return document.querySelector('#status').textContent === {status}
                && document.querySelector('#body').textContent.includes({body})"
        ))
        .await
    }

    async fn says(&self, message: &str) -> Result {
        let message = json!(message);
        self.until(&format!(
            "return document.querySelector('#message').textContent.includes({message})"
        ))
        .await
    }

    /// Saves a screenshot, and checks the promises of every state.
    async fn look(&self, state: &str) -> Result {
        let shot = self.client.screenshot().await?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let file = folder.join(format!("page-{}-{state}.png", self.screen.name));
        std::fs::write(file, shot)?;

        let found = self.client.execute(include_str!("promises.js"), Vec::new()).await?;
        assert_eq!(found["width"], self.screen.width, "the emulated width");
        assert_eq!(found["scheme"], self.screen.scheme);
        assert_eq!(found["broken"], json!([]), "{} {state}", self.screen.name);
        Ok(())
    }

    /// Checks that the console has only the 404 of each refused id and cursor, because Chromium logs these as
    /// errors.
    async fn console_is_quiet(&self) -> Result {
        let log = self.client.issue_cmd(Extension("se/log", json!({ "type": "browser" }))).await?;
        let messages: Vec<&str> = log
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|entry| entry["message"].as_str())
            .collect();
        assert!(!messages.is_empty(), "the log does not work");
        for message in &messages {
            let is_refusal = message.contains("/api/") || message.contains("_cursor_");
            assert!(is_refusal && message.ends_with("404 (Not Found)"), "{messages:#?}");
        }
        Ok(())
    }
}
