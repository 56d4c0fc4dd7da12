//! Controls Chromium through WebDriver (W3C).

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::http::{Answer, exchange};
use crate::clock::{Stopwatch, wait_for_every};
use crate::peer::program_path;
use crate::process::{Invocation, Running};

/// The programs that browser tests need.
pub const PEERS: &[&str] = &["chromium", "chromedriver"];

/// The maximum time for a condition of a page.
const LIMIT: Duration = Duration::from_secs(30);

/// The time between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The key under which WebDriver names elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Arguments that keep Chromium from contacting any server except the page's, and from storing
/// data.
const ARGUMENTS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-proxy-server",
];

/// The maximum number of drivers that are started until one of them has a port.
const MAX_DRIVERS: usize = 5;

/// The colour scheme that the system prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// The light scheme.
    Light,
    /// The dark scheme.
    Dark,
}

/// A browser with one page, which ends when dropped.
pub struct Browser {
    address: String,
    session: String,
    /// The driver, which must end before the folder of its profile is removed.
    _driver: Running,
    _profile: TempDir,
}

/// An element of the page.
#[derive(Debug, Clone)]
pub struct Element(String);

/// Starts a driver, and returns it with its address. A driver takes a port that is free for IPv4 or
/// IPv6, and serves no client if another program has the same port of the other protocol. The next
/// driver takes another port.
fn start_driver(directory: &Path) -> (Running, String) {
    let mut refusals = String::new();
    for _ in 0..MAX_DRIVERS {
        let driver = Invocation::new(program_path("chromedriver"), directory);
        let driver = driver.arg("--port=0").spawn();
        let mut driver = driver.expect("chromedriver can be started");
        let started = wait_for_every(POLL_INTERVAL, LIMIT, || {
            let has_no_port = driver.stderr_so_far().contains("bind() failed");
            if has_no_port || !driver.is_running() {
                return Some(None);
            }
            let address = driver_address(&driver.stdout_so_far())?;
            let status = call(&address, "GET", "/status", None);
            (status["ready"] == true).then_some(Some(address))
        });
        match started.flatten() {
            Some(address) => return (driver, address),
            None => refusals += &driver.stderr_so_far(),
        }
    }
    panic!("chromedriver: {refusals}");
}

impl Browser {
    /// Starts a browser with a window of `width` times `height` pixels.
    ///
    /// # Panics
    ///
    /// The browser does not start.
    #[must_use]
    pub fn start(width: u32, height: u32, colours: Colours) -> Browser {
        let profile = tempfile::tempdir().expect("the profile directory can be made");
        let (driver, address) = start_driver(profile.path());
        let mut arguments: Vec<String> = ARGUMENTS.map(str::to_owned).to_vec();
        arguments.push(format!("--window-size={width},{height}"));
        let folder = profile.path().join("profile");
        arguments.push(format!("--user-data-dir={}", folder.display()));
        if colours == Colours::Dark {
            arguments.push("--force-dark-mode".to_owned());
            arguments.push("--blink-settings=preferredColorScheme=0".to_owned());
        }
        let options = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "timeouts": {"pageLoad": LIMIT.as_millis() as u64},
            "goog:chromeOptions": {"binary": program_path("chromium"), "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let session = call(&address, "POST", "/session", Some(&options));
        let Some(id) = session["sessionId"].as_str() else {
            panic!("no session: {session} {}", driver.stdout_so_far());
        };
        Browser {
            session: format!("/session/{id}"),
            address,
            _driver: driver,
            _profile: profile,
        }
    }

    /// Sends a command of this session to the driver.
    fn command(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        call(
            &self.address,
            method,
            &format!("{}{path}", self.session),
            body,
        )
    }

    /// Opens a URL.
    ///
    /// # Panics
    ///
    /// The page is not loaded within the limit.
    pub fn open(&self, url: &str) {
        let answer = self.command("POST", "/url", Some(&json!({ "url": url })));
        assert_ne!(answer["error"], "timeout", "{url}: {answer}");
    }

    /// The value that a script returns.
    pub fn run(&self, script: &str) -> Value {
        self.command(
            "POST",
            "/execute/sync",
            Some(&json!({ "script": script, "args": [] })),
        )
    }

    /// Waits until a script returns a true value, and returns this value.
    ///
    /// # Panics
    ///
    /// The script returns no true value within the limit.
    pub fn wait(&self, condition: &str, script: &str) -> Value {
        let found = wait_for_every(POLL_INTERVAL, LIMIT, || {
            let value = self.run(script);
            let is_true = !matches!(value, Value::Null | Value::Bool(false));
            (is_true && value != "" && value.get("error").is_none()).then_some(value)
        });
        found.unwrap_or_else(|| {
            panic!(
                "{condition}: not within {LIMIT:?}; page:\n{}",
                self.run("return document.body.innerText")
            )
        })
    }

    /// Waits for an element by its CSS selector.
    pub fn find(&self, selector: &str) -> Element {
        let script = format!("return document.querySelector({})", json!(selector));
        let found = self.wait(selector, &script);
        Element(found[ELEMENT].as_str().unwrap_or_default().to_owned())
    }

    /// Types into an element. `\u{e007}` is Enter in WebDriver's numbering of keys.
    pub fn type_into(&self, element: &Element, text: &str) {
        let path = format!("/element/{}/value", element.0);
        self.command("POST", &path, Some(&json!({ "text": text })));
    }

    /// Clicks an element.
    pub fn click(&self, element: &Element) {
        let path = format!("/element/{}/click", element.0);
        self.command("POST", &path, Some(&json!({})));
    }

    /// The displayed text of the first element that a selector matches.
    #[must_use]
    pub fn text(&self, selector: &str) -> String {
        let script = format!(
            "return document.querySelector({})?.innerText ?? ''",
            json!(selector)
        );
        self.run(&script).as_str().unwrap_or_default().to_owned()
    }

    /// The browser's complaints since the last call: errors of scripts and of loading, and
    /// violations of the content security policy.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let log = self.command("POST", "/se/log", Some(&json!({ "type": "browser" })));
        let entries = log.as_array().cloned().unwrap_or_default();
        let bad = entries
            .iter()
            .filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING");
        bad.map(|entry| entry["message"].to_string()).collect()
    }

    /// Asserts that the browser has not complained since the last call.
    ///
    /// # Panics
    ///
    /// The browser has complained.
    pub fn assert_no_complaints(&self) {
        assert_eq!(self.complaints(), Vec::<String>::new());
    }

    /// Presses keys at the focused element. Keys without a character have private code points in
    /// WebDriver's numbering.
    pub fn press(&self, keys: &str) {
        let strokes = keys.chars().flat_map(|key| {
            ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()}))
        });
        let actions = json!({"actions": [
            {"type": "key", "id": "keyboard", "actions": strokes.collect::<Vec<_>>()},
        ]});
        self.command("POST", "/actions", Some(&actions));
    }

    /// Presses the key `key` while the key `held` is held down.
    pub fn press_with(&self, held: &str, key: &str) {
        let stroke = |kind: &str, value: &str| json!({"type": kind, "value": value});
        let strokes = [
            stroke("keyDown", held),
            stroke("keyDown", key),
            stroke("keyUp", key),
            stroke("keyUp", held),
        ];
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]});
        self.command("POST", "/actions", Some(&actions));
    }

    /// Sends a command of Chromium's own protocol.
    fn chromium(&self, command: &str, parameters: &Value) {
        let body = json!({"cmd": command, "params": parameters});
        self.command("POST", "/goog/cdp/execute", Some(&body));
    }

    /// Sets the size of the page. A window cannot be narrower than about 500 pixels.
    pub fn resize(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.chromium("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Shows the page in its printed form.
    pub fn show_as_printed(&self) {
        self.chromium("Emulation.setEmulatedMedia", &json!({"media": "print"}));
    }

    /// Writes a screenshot of the window (PNG).
    ///
    /// # Panics
    ///
    /// The file cannot be written.
    pub fn screenshot(&self, file: &Path) {
        let shot = self.command("GET", "/screenshot", None);
        let bytes = base64(shot.as_str().unwrap_or_default());
        std::fs::write(file, bytes).expect("the screenshot can be written");
    }

    /// The time until a condition holds.
    ///
    /// # Panics
    ///
    /// The condition does not hold within the limit.
    #[must_use]
    pub fn time(&self, condition: &str, script: &str) -> Duration {
        let stopwatch = Stopwatch::start();
        self.wait(condition, script);
        stopwatch.elapsed()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The request ends Chromium; the driver is killed afterwards.
        self.command("DELETE", "", None);
    }
}

/// Sends a command to the driver, and returns the `value` of its answer.
fn call(address: &str, method: &str, path: &str, body: Option<&Value>) -> Value {
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer: Answer = exchange(address, request.as_bytes());
    answer.json()["value"].take()
}

/// The address in the output of a driver that has chosen its port itself.
fn driver_address(printed: &str) -> Option<String> {
    let (_, port) = printed.split_once("started successfully on port ")?;
    let (port, _) = port.split_once('.')?;
    Some(format!("127.0.0.1:{port}"))
}

/// Decodes base64 (RFC 4648), with or without padding.
fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = text.bytes().filter_map(digit).map(u32::from).collect();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for four in digits.chunks(4) {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        let [_, first, second, third] = bits.to_be_bytes();
        bytes.extend_from_slice(&[first, second, third][..four.len() * 6 / 8]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::{base64, driver_address};

    #[test]
    fn address_is_read_from_the_driver_output() {
        let printed = "Only local connections are allowed.\n\
                       ChromeDriver was started successfully on port 40907.\n";
        assert_eq!(driver_address(printed).as_deref(), Some("127.0.0.1:40907"));
        assert_eq!(driver_address("ChromeDriver was started on port 409"), None);
    }

    #[test]
    fn base64_is_decoded_with_and_without_padding() {
        assert_eq!(base64("aGVsbG8="), b"hello");
        assert_eq!(base64("aGVsbG8h"), b"hello!");
        assert_eq!(base64("aGk"), b"hi");
    }
}
