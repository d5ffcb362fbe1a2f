//! One page: loading, looking, clicking, typing, and what it complained about.

use std::path::Path;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::pipe::{Event, Pipe};

/// How a page is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Width of the window in CSS pixels.
    pub width: u32,
    /// Height.
    pub height: u32,
    /// Whether the user prefers dark pages.
    pub dark: bool,
}

/// A loaded page; closed when dropped.
#[derive(Debug)]
pub struct Page<'b> {
    pipe: &'b mut Pipe,
    session: String,
    problems: Vec<String>,
    requests: Vec<String>,
}

impl<'b> Page<'b> {
    pub(crate) fn load(
        pipe: &'b mut Pipe,
        session: String,
        file: &Path,
        look: Look,
    ) -> Result<Self> {
        let mut page = Self {
            pipe,
            session,
            problems: Vec::new(),
            requests: Vec::new(),
        };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({}))?;
        }
        page.look(look)?;
        let url = format!("file://{}", file.display());
        let navigated = page.call("Page.navigate", json!({ "url": url }))?;
        if let Some(error) = navigated.get("errorText") {
            bail!("{url}: {error}");
        }
        loop {
            let event = page.pipe.event(&page.session, "loading the page")?;
            let loaded = event.method == "Page.loadEventFired";
            page.note(event);
            if loaded {
                return Ok(page);
            }
        }
    }

    /// Calls a method of the protocol.
    ///
    /// # Errors
    /// When the browser refuses or does not answer.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.pipe.call(Some(&self.session), method, params)
    }

    /// Changes size and preference.
    ///
    /// # Errors
    /// As [`Page::call`].
    pub fn look(&mut self, look: Look) -> Result<()> {
        let size = json!({
            "width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": false
        });
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        let scheme = if look.dark { "dark" } else { "light" };
        let media = json!({
            "features": [
                {"name": "prefers-color-scheme", "value": scheme},
                {"name": "prefers-reduced-motion", "value": "reduce"},
            ]
        });
        self.call("Emulation.setEmulatedMedia", media).map(drop)
    }

    /// The value of an expression, or of the promise that it is.
    ///
    /// # Errors
    /// When it throws, or as [`Page::call`].
    pub fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let parameters = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true
        });
        let mut done = self.call("Runtime.evaluate", parameters)?;
        if let Some(thrown) = done.get("exceptionDetails") {
            bail!("{expression}: {thrown}");
        }
        Ok(done["result"]["value"].take())
    }

    /// Waits for two frames: what was changed before is drawn then.
    ///
    /// # Errors
    /// As [`Page::evaluate`].
    pub fn drawn(&mut self) -> Result<()> {
        let frames =
            "new Promise(d => requestAnimationFrame(() => requestAnimationFrame(() => d())))";
        self.evaluate(frames).map(drop)
    }

    /// Milliseconds from the start of navigation to the first content on the screen.
    ///
    /// # Errors
    /// As [`Page::evaluate`].
    pub fn first_paint(&mut self) -> Result<f64> {
        let paint = self.evaluate(
            "new Promise(done => new PerformanceObserver(list => { \
             const entry = list.getEntriesByName('first-contentful-paint')[0]; \
             if (entry) done(entry.startTime); }).observe({type: 'paint', buffered: true}))",
        )?;
        paint.as_f64().context("the page never painted anything")
    }

    /// Presses and releases the left button in the middle of what an expression gives, after
    /// scrolling it into view.
    ///
    /// # Errors
    /// As [`Page::evaluate`]; also when there is no such element.
    pub fn click(&mut self, element: &str) -> Result<()> {
        let (x, y) = self.middle(element)?;
        for kind in ["mousePressed", "mouseReleased"] {
            self.mouse(kind, x, y, json!({"button": "left", "clickCount": 1}))?;
        }
        Ok(())
    }

    /// The middle of an element on the screen, after scrolling it into view.
    ///
    /// # Errors
    /// As [`Page::click`].
    pub fn middle(&mut self, element: &str) -> Result<(f64, f64)> {
        let place = self.evaluate(&format!(
            "(() => {{ const e = {element}; \
             e.scrollIntoView({{block: 'center', inline: 'center'}}); \
             const r = e.getBoundingClientRect(); \
             return [r.left + r.width / 2, r.top + r.height / 2]; }})()"
        ))?;
        match (place[0].as_f64(), place[1].as_f64()) {
            (Some(x), Some(y)) => Ok((x, y)),
            _ => bail!("{element} is nowhere"),
        }
    }

    /// A mouse event: `mouseMoved`, `mousePressed`, `mouseWheel`, …; `more` are its parameters.
    ///
    /// # Errors
    /// As [`Page::call`].
    pub fn mouse(&mut self, kind: &str, x: f64, y: f64, more: Value) -> Result<()> {
        let mut event = json!({"type": kind, "x": x, "y": y});
        if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
            event.extend(more);
        }
        self.call("Input.dispatchMouseEvent", event).map(drop)
    }

    /// Presses and releases a key, by the name that scripts see; a printed one with its text.
    ///
    /// # Errors
    /// As [`Page::call`].
    pub fn key(&mut self, key: &str) -> Result<()> {
        let code = match key {
            "Enter" => 13,
            " " => 32,
            _ => 0,
        };
        let text = match key {
            "Enter" => "\r",
            key if key.chars().count() == 1 => key,
            _ => "",
        };
        let mut down = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code});
        if !text.is_empty() {
            down["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", down)?;
        let up = json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code});
        self.call("Input.dispatchKeyEvent", up).map(drop)
    }

    /// What is on the screen, as PNG.
    ///
    /// # Errors
    /// As [`Page::call`].
    pub fn screenshot(&mut self) -> Result<Vec<u8>> {
        self.drawn()?;
        let taken = self.call("Page.captureScreenshot", json!({"format": "png"}))?;
        let data = taken["data"].as_str().context("no picture")?;
        Ok(STANDARD.decode(data)?)
    }

    /// Errors and warnings so far: thrown by scripts, written to the console, or of the browser
    /// about the page.
    ///
    /// # Errors
    /// As [`Page::call`].
    pub fn problems(&mut self) -> Result<&[String]> {
        self.catch_up()?;
        Ok(&self.problems)
    }

    /// Addresses that the page asked for so far.
    ///
    /// # Errors
    /// As [`Page::call`].
    pub fn requests(&mut self) -> Result<&[String]> {
        self.catch_up()?;
        Ok(&self.requests)
    }

    /// Takes the events that came before now.
    fn catch_up(&mut self) -> Result<()> {
        self.evaluate("0")?;
        while let Some(event) = self.pipe.known_event(&self.session) {
            self.note(event);
        }
        Ok(())
    }

    fn note(&mut self, event: Event) {
        let params = event.params;
        match event.method.as_str() {
            "Runtime.exceptionThrown" => {
                self.problems.push(params["exceptionDetails"].to_string());
            }
            "Runtime.consoleAPICalled"
                if matches!(
                    params["type"].as_str(),
                    Some("error" | "warning" | "assert")
                ) =>
            {
                self.problems.push(params["args"].to_string());
            }
            "Log.entryAdded"
                if matches!(params["entry"]["level"].as_str(), Some("error" | "warning")) =>
            {
                self.problems.push(params["entry"]["text"].to_string());
            }
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str();
                self.requests.push(url.unwrap_or("?").to_owned());
            }
            _ => {}
        }
    }
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        // A browser that is gone has no pages.
        let _ = self.call("Page.close", json!({}));
    }
}
