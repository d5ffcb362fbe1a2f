//! Drives Chromium through the DevTools protocol, over two pipes
//! (`--remote-debugging-pipe`): no port, no network, one thread.
//!
//! [`Browser`] is the process, [`Page`] one of its pages. What the protocol's methods and events
//! mean is said at <https://chromedevtools.github.io/devtools-protocol/>.

mod page;
mod pipe;
pub mod tables;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

pub use page::{Look, Page};
use pipe::Pipe;

/// Names that Chromium goes by.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// What the process is started with besides: nothing of the user's, nothing from the network.
const OPTIONS: [&str; 12] = [
    "--headless",
    "--remote-debugging-pipe",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--no-first-run",
];

/// A running browser; ends when dropped.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    pipe: Pipe,
    /// Its settings and caches.
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts Chromium.
    ///
    /// # Errors
    /// When it is missing, with the way to get it, or does not start.
    pub fn start() -> Result<Self> {
        let program = find().context(
            "there is no Chromium: run `cargo xtask setup --tests` (apt-get install chromium)",
        )?;
        let profile = tempfile::tempdir().context("no place for the browser's profile")?;
        // The protocol is spoken on descriptors 3 and 4; a shell moves the pipes there.
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh"])
            .arg(&program)
            .args(OPTIONS)
            .arg(format!("--user-data-dir={}", profile.path().display()));
        if rustix::process::geteuid().is_root() {
            // Its sandbox does not work for root.
            command.arg("--no-sandbox");
        }
        let log = profile.path().join("stderr");
        let mut child = command
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the browser has no pipes");
        };
        let mut browser = Self {
            child,
            pipe: Pipe::new(to, from),
            _profile: profile,
        };
        let version = browser.pipe.call(None, "Browser.getVersion", json!({}));
        version.with_context(|| {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            format!("{} does not answer: {said}", program.display())
        })?;
        Ok(browser)
    }

    /// Opens a file as a page and waits until it is loaded.
    ///
    /// # Errors
    /// When the browser fails or does not answer in time.
    pub fn open(&mut self, file: &Path, look: Look) -> Result<Page<'_>> {
        let file = std::fs::canonicalize(file)
            .with_context(|| format!("cannot open {}", file.display()))?;
        let target = json!({"url": "about:blank"});
        let created = self.pipe.call(None, "Target.createTarget", target)?;
        let target = json!({"targetId": created["targetId"], "flatten": true});
        let attached = self.pipe.call(None, "Target.attachToTarget", target)?;
        let Some(session) = attached["sessionId"].as_str() else {
            bail!("the browser attaches to no page");
        };
        Page::load(&mut self.pipe, session.to_owned(), &file, look)
    }

    /// Name and version.
    ///
    /// # Errors
    /// When the browser does not answer.
    pub fn version(&mut self) -> Result<String> {
        let version = self.pipe.call(None, "Browser.getVersion", json!({}))?;
        let product = version.get("product").and_then(Value::as_str);
        Ok(product.unwrap_or("unknown").to_owned())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Asked, it also ends its helper processes; killed, it might not.
        let asked = self.pipe.call(None, "Browser.close", json!({}));
        if asked.is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Chromium in `PATH`.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let directories = std::env::split_paths(&path);
    let mut files = directories.flat_map(|directory| NAMES.map(|name| directory.join(name)));
    files.find(|file| file.is_file())
}
