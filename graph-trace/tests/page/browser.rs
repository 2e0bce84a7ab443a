//! A headless Chromium that is controlled over a pipe.
//!
//! With `--remote-debugging-pipe`, Chromium reads commands from file descriptor 3 and writes answers to file
//! descriptor 4, as JSON messages that end with a zero byte. A shell redirects the standard streams to these
//! descriptors, so only the standard library is needed, and the page under test is not modified.

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc::{self, Receiver},
    },
    time::Duration,
};

use serde_json::{Value, json};

/// Maximum time to wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    output: Receiver<Value>,
    session: Option<String>,
    n_calls: u64,
    /// Messages that were not answers to a command.
    events: Vec<Value>,
    /// Directory that contains the browser's profile and the page.
    dir: PathBuf,
}

impl Browser {
    /// Starts a browser. If Chromium is not installed, prints a notice and returns `None`.
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = find_chromium() else {
            test_support::skip("GRAPH_REQUIRE_CHROMIUM", "Chromium is not installed");
            return None;
        };
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let nth = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("graph-trace-page-{}-{nth}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let mut child = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 >/dev/null"#])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--remote-debugging-pipe", "--no-first-run", "--disable-dev-shm-usage"])
            .arg(format!("--user-data-dir={}", dir.join("profile").display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while matches!(answers.read_until(0, &mut message), Ok(read) if read > 0) {
                if message.last() == Some(&0) {
                    message.pop();
                }
                let Ok(value) = serde_json::from_slice(&message) else { return };
                if sender.send(value).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let mut browser =
            Self { child, input, output, session: None, n_calls: 0, events: Vec::new(), dir };
        browser.attach();
        Some(browser)
    }

    fn attach(&mut self) {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", &target);
        self.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.call(domain, &json!({}));
        }
        self.call("Page.setLifecycleEventsEnabled", &json!({ "enabled": true }));
    }

    /// Sets the size of the window and the preferred colour scheme.
    pub(crate) fn emulate(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Writes the page to a file, opens it and waits until it is loaded.
    pub(crate) fn open(&mut self, html: &str) {
        let path = self.dir.join("page.html");
        std::fs::write(&path, html).unwrap();
        self.events.clear();
        let url = json!({ "url": format!("file://{}", path.display()) });
        let loader = self.call("Page.navigate", &url)["loaderId"].take();
        assert!(loader.is_string(), "the browser did not load the page as a new document");
        // On a slow machine, the load event of the empty first page may still arrive.
        let is_loaded = |event: &Value| {
            let params = &event["params"];
            event["method"] == "Page.lifecycleEvent"
                && params["name"] == "load"
                && params["loaderId"] == loader
        };
        while !self.events.iter().any(is_loaded) {
            let event = self.receive();
            self.events.push(event);
        }
    }

    /// Evaluates an expression in the page.
    #[track_caller]
    pub(crate) fn eval(&mut self, script: &str) -> Value {
        let options = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &options);
        assert!(answer["exceptionDetails"].is_null(), "{script}: {answer:#}");
        answer["result"]["value"].clone()
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", &json!({ "type": kind, "key": key }));
        }
    }

    /// Returns the problems that the page has reported: errors, policy violations and console output.
    pub(crate) fn problems(&mut self) -> Vec<String> {
        // Waits for an answer to a command, because all messages that are still pending arrive before it.
        self.eval("new Promise((done) => setTimeout(done, 50))");
        let methods = ["Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"];
        let problems =
            self.events.iter().filter(|it| methods.iter().any(|kind| it["method"] == *kind));
        problems.map(|it| it["params"].to_string()).collect()
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.n_calls += 1;
        let mut message = json!({ "id": self.n_calls, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut answer = self.receive();
            if answer["id"] == self.n_calls {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.events.push(answer);
        }
    }

    fn receive(&self) -> Value {
        self.output.recv_timeout(ANSWER_TIMEOUT).expect("Chromium answers in time")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A clean shutdown first ends the helper processes, which would otherwise still write to the directory.
        let close = json!({ "id": 0, "method": "Browser.close" });
        let _ = self.input.write_all(format!("{close}\0").as_bytes());
        let has_exited = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        let mut waits = std::iter::repeat_n(Duration::from_millis(50), 1200);
        while !has_exited(&mut self.child) {
            match waits.next() {
                Some(wait) => std::thread::sleep(wait),
                None => drop(self.child.kill()),
            }
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn find_chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = std::env::var_os("PATH")?;
    let path_dirs: Vec<_> = std::env::split_paths(&path).collect();
    names
        .iter()
        .flat_map(|name| path_dirs.iter().map(move |it| it.join(name)))
        .find(|it| it.is_file())
}
