//! Chromium, at a phone's width in dark mode and at a desk's in light mode.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use url::{ParseError, Url};

use crate::Result;
use crate::tools::chromedriver;

pub struct Screen {
    name: &'static str,
    width: u32,
    height: u32,
    is_phone: bool,
    scheme: &'static str,
}

pub const PHONE: Screen =
    Screen { name: "phone", width: 390, height: 844, is_phone: true, scheme: "dark" };
pub const DESK: Screen =
    Screen { name: "desk", width: 1280, height: 800, is_phone: false, scheme: "light" };

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

pub struct Visit {
    pub client: Client,
    screen: Screen,
    /// The folder and the first part of the names of screenshots.
    shots: PathBuf,
}

/// Opens a page and follows a story on it.
pub async fn visit<F: Future<Output = Result> + Send + 'static>(
    screen: Screen,
    url: &str,
    shots: &Path,
    story: impl FnOnce(Visit) -> F,
) -> Result {
    let folder = tempfile::tempdir()?;
    let (_driver, port) = chromedriver(folder.path())?;
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
    let visit = Visit { client: client.clone(), screen, shots: shots.to_owned() };
    let done = match visit.open(url).await {
        Ok(()) => tokio::spawn(story(visit)).await,
        Err(error) => Ok(Err(error)),
    };
    // The browser is closed even after a panic, because a killed driver leaves it running.
    client.close().await?;
    done?
}

impl Visit {
    async fn open(&self, url: &str) -> Result {
        let scheme = json!([{ "name": "prefers-color-scheme", "value": self.screen.scheme }]);
        let emulate =
            json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "features": scheme } });
        self.client.issue_cmd(Extension("goog/cdp/execute", emulate)).await?;
        Ok(self.client.goto(url).await?)
    }

    pub async fn click(&self, selector: &str) -> Result {
        Ok(self.client.find(Locator::Css(selector)).await?.click().await?)
    }

    pub async fn text(&self, selector: &str) -> Result<String> {
        Ok(self.client.find(Locator::Css(selector)).await?.text().await?)
    }

    /// Waits until a script returns true.
    pub async fn until(&self, script: &str) -> Result {
        for _ in 0..400 {
            if self.client.execute(script, Vec::new()).await? == true {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        let page = self.text("body").await?;
        Err(format!("{script}: not within 10 seconds; the page is\n{page}").into())
    }

    /// Saves a screenshot, and checks the promises of every state.
    pub async fn look(&self, state: &str) -> Result {
        let shot = self.client.screenshot().await?;
        let name = format!("{}-{}-{state}.png", self.shots.display(), self.screen.name);
        std::fs::write(name, shot)?;

        let found = self.client.execute(include_str!("promises.js"), Vec::new()).await?;
        assert_eq!(found["width"], self.screen.width, "the emulated width");
        assert_eq!(found["scheme"], self.screen.scheme);
        assert_eq!(found["broken"], json!([]), "{} {state}", self.screen.name);
        Ok(())
    }

    /// Returns the messages of the console.
    pub async fn console(&self) -> Result<Vec<String>> {
        let log = self.client.issue_cmd(Extension("se/log", json!({ "type": "browser" }))).await?;
        let entries = log.as_array().into_iter().flatten();
        Ok(entries.filter_map(|entry| Some(entry["message"].as_str()?.to_owned())).collect())
    }
}
