//! The status page by keyboard alone: WebDriver presses the keys in a browser. Every link and every table that scrolls
//! is reached, in the order of the page, and shows that it has the focus.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::status_page::Demo;

/// WebDriver's names of the keys (<https://www.w3.org/TR/webdriver2/#keyboard-actions>).
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

/// A browser with one page.
struct Browser {
    driver: Child,
    client: reqwest::Client,
    session: String,
    profile: TempDir,
}

impl Browser {
    async fn open(page: &str) -> Browser {
        // Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (client, profile) = (reqwest::Client::new(), TempDir::new().unwrap());
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .spawn()
            .expect("chromedriver is not in PATH (on Debian: apt-get install chromium-driver)");
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, port) = line.split_once("started successfully on port ")?;
            Some(port.trim_end_matches('.').to_owned())
        });
        let mut browser = Browser {
            driver,
            client,
            session: format!("http://127.0.0.1:{}/session", port.unwrap()),
            profile,
        };
        let folder = browser.profile.path().display().to_string();
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            &format!("--user-data-dir={folder}"),
        ];
        let wanted =
            json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}}}});
        let session = browser.ask("", wanted).await;
        let id = session["sessionId"].as_str().unwrap();
        browser.session = format!("{}/{id}", browser.session);
        browser.ask("/url", json!({"url": page})).await;
        browser
    }

    async fn ask(&self, command: &str, body: Value) -> Value {
        let url = format!("{}{command}", self.session);
        let request = self.client.post(url).body(body.to_string());
        let answer = request.send().await.unwrap().text().await.unwrap();
        let mut answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer["value"]["error"].is_null(), "{command}: {answer}");
        answer["value"].take()
    }

    async fn press(&self, key: &str) {
        let strokes = ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key}));
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": strokes});
        self.ask("/actions", json!({"actions": [keyboard]})).await;
    }

    async fn evaluate(&self, script: &str) -> Value {
        let script = json!({"script": script, "args": []});
        self.ask("/execute/sync", script).await
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session, and outlives a driver that is only killed.
        let (_, rest) = self.session.split_once("//").unwrap();
        let (address, session) = rest.split_once('/').unwrap();
        if let Ok(mut stream) = TcpStream::connect(address) {
            let head = format!(
                "DELETE /{session} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes());
            // The answer comes when the browser has ended; the connection may stay open after it.
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            let _ = stream.read(&mut [0; 512]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

#[tokio::test]
async fn the_status_page_is_read_by_keyboard_alone() {
    let demo = Demo::start();
    let browser = Browser::open(&format!("{}?refresh=off", demo.page)).await;
    let count = browser
        .evaluate(
            "window.reachable = [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex]')];
             return window.reachable.length;",
        )
        .await;
    let count = count.as_u64().unwrap();
    assert!(count > 5, "the page has links, and tables that scroll");
    let focus = "const it = document.activeElement, style = getComputedStyle(it), box = it.getBoundingClientRect();
        return [window.reachable.indexOf(it), style.outlineStyle, box.bottom > 0 && box.top < innerHeight && box.left >= 0 && box.width > 1, it.className];";
    for expected in 0..count {
        browser.press(TAB).await;
        let found = browser.evaluate(focus).await;
        assert_eq!(found[0], expected, "{found}: the order of the page");
        assert_ne!(found[1], "none", "{found}: the focus is seen");
        assert_eq!(
            found[2], true,
            "{found}: what has the focus is on the screen"
        );
    }

    // The first link skips everything before the page's own content.
    browser
        .evaluate("document.activeElement.blur(); window.reachable[0].focus();")
        .await;
    browser.press(ENTER).await;
    let hash = browser.evaluate("return location.hash;").await;
    assert_eq!(hash, "#main");
    browser.press(TAB).await;
    let is_inside = "return document.querySelector('main').contains(document.activeElement);";
    assert_eq!(browser.evaluate(is_inside).await, true);
}
