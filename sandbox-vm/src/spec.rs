//! What a sandbox is to be.

use std::{
    collections::BTreeMap, convert::Infallible, fmt, path::PathBuf, str::FromStr, time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{Error, limits::Limits};

/// What a sandbox is to be: its name, what is in it, what it may use and how long it lives.
///
/// ```
/// use std::time::Duration;
///
/// use sandbox_vm::{Image, Spec};
///
/// let spec = Spec::new("negotiate-acme-1")
///     .image(Image::Base)
///     .memory(512 << 20)
///     .label("ticker", "ACME")
///     .lifetime(Duration::from_secs(600));
/// assert_eq!(spec.labels["ticker"], "ACME");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct Spec {
    /// The name; at most one sandbox of a name lives at once.
    pub name: String,
    /// What is in it.
    pub image: Image,
    /// Folders of the host that it sees at its root under these names, and can only read.
    #[serde(default, rename = "folders")]
    pub shared_dirs: BTreeMap<String, PathBuf>,
    /// What it is found by.
    pub labels: BTreeMap<String, String>,
    /// Where it is meant to run. It is a label, found as `region`: all back ends of this crate run guests on this machine.
    pub region: Option<String>,
    /// What it may use.
    pub limits: Limits,
    /// How long it lives.
    pub lifetime: Duration,
}

impl Spec {
    /// A sandbox of this name with the usual limits, which lives for an hour.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            image: Image::Base,
            shared_dirs: BTreeMap::new(),
            labels: BTreeMap::new(),
            region: None,
            limits: Limits::default(),
            lifetime: Duration::from_secs(3600),
        }
    }

    /// Says what is in it.
    pub fn image(mut self, image: Image) -> Self {
        self.image = image;
        self
    }

    /// Shows it a folder of the host, to read only: at its root, under this name.
    ///
    /// What is put into the folder later is seen too. Where the host is root the guest is nobody: then every user has to
    /// be able to reach the folder and to read what is in it. A back end that cannot do it refuses the sandbox; its
    /// report says so.
    pub fn shared_dir(mut self, name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        self.shared_dirs.insert(name.into(), path.into());
        self
    }

    /// Gives it so many bytes of memory.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.limits.memory = bytes;
        self
    }

    /// Gives it so much of a processor's time: 0.5 is half of one.
    pub fn cpus(mut self, cpus: f64) -> Self {
        self.limits.cpus = cpus;
        self
    }

    /// Lets it be found by this.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Says where it is meant to run, as a label.
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.region = Some(region.into());
        self
    }

    /// Says what it may use.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Removes it after that time, whatever it does.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Refuses what no back end could make.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let problem = if self.name.is_empty() || self.name.len() > 128 {
            "a name has 1 to 128 characters"
        } else if !self.name.chars().all(|it| it.is_ascii_alphanumeric() || "-_.".contains(it)) {
            "a name has letters, digits, `-`, `_` and `.` only; see `Spec::sanitize_name`"
        } else if self.name.starts_with('.') {
            "a name does not start with a dot"
        } else if self.limits.memory < MIN_MEMORY {
            "it needs 32 MiB of memory at least"
        } else if !(self.limits.cpus > 0.0 && self.limits.cpus <= 1024.0) {
            "it needs more than no processor, and at most 1024"
        } else if self.limits.processes < 4 {
            "it needs 4 processes at least"
        } else if self.limits.disk < MIN_DISK {
            "it needs 64 KiB of disk at least"
        } else if self.limits.files < MIN_FILES {
            "it needs 16 files at least"
        } else if !self.shared_dirs.keys().all(|it| is_valid_dir_name(it)) {
            "a folder that it is shown has a name of letters, digits, `-` and `_` that no other folder at a root has"
        } else if !self.shared_dirs.values().all(|it| it.is_absolute()) {
            "a folder that it is shown is named by its whole path"
        } else {
            return Ok(());
        };
        Err(Error::BadSpec { name: self.name.clone(), problem })
    }

    /// A text as it may stand in a name: `^GSPC` becomes `-gspc`, `BRK.B` becomes `brk.b`.
    pub fn sanitize_name(text: &str) -> String {
        let clean = |it: char| match it.to_ascii_lowercase() {
            it if it.is_ascii_alphanumeric() || "-_.".contains(it) => it,
            _ => '-',
        };
        text.chars().map(clean).take(128).collect()
    }
}

/// With less the agent itself does not start.
const MIN_MEMORY: u64 = 32 << 20;

/// A file system takes no room and no files at all for no limit.
const MIN_DISK: u64 = 64 << 10;
const MIN_FILES: u32 = 16;

/// What stands at the root of a guest anyway.
const RESERVED_ROOT_NAMES: [&str; 15] = [
    "agent",
    "bin",
    "dev",
    "etc",
    "init",
    "lib",
    "lib64",
    "modules",
    "proc",
    "sbin",
    "store",
    "sys",
    "tmp",
    "usr",
    "workspace",
];

fn is_valid_dir_name(name: &str) -> bool {
    let is_plain = name.chars().all(|it| it.is_ascii_alphanumeric() || "-_".contains(it));
    is_plain && !name.is_empty() && !RESERVED_ROOT_NAMES.contains(&name)
}

/// What is in a sandbox besides the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Image {
    /// Nothing.
    #[default]
    Base,
    /// Python, its standard library and the usual shell tools.
    Python,
    /// An image that one back end knows under this name.
    Named(String),
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Base => "sandbox/base-image:latest",
            Self::Python => "agent-sandbox-python:latest",
            Self::Named(name) => name,
        })
    }
}

impl FromStr for Image {
    type Err = Infallible;

    fn from_str(name: &str) -> Result<Self, Infallible> {
        Ok(match name {
            "base" | "sandbox/base-image:latest" => Self::Base,
            "python" | "agent-sandbox-python:latest" => Self::Python,
            _ => Self::Named(name.to_owned()),
        })
    }
}

impl From<String> for Image {
    fn from(name: String) -> Self {
        match name.parse() {
            Ok(image) => image,
        }
    }
}

impl From<Image> for String {
    fn from(image: Image) -> Self {
        image.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::{Image, Spec};

    #[test]
    fn names_of_the_market_become_names_of_sandboxes() {
        for (ticker, name) in [("BRK.B", "brk.b"), ("^GSPC", "-gspc"), ("Ünlü/../x", "-nl--..-x")]
        {
            assert_eq!(Spec::sanitize_name(ticker), name);
        }
        assert!(Spec::new("negotiate-brk.b-1").check().is_ok());
        for bad in ["", "a/b", "..", ".hidden", "a b", &"x".repeat(129)] {
            assert!(Spec::new(bad).check().is_err(), "{bad}");
        }
        assert!(Spec::new("x").memory(1 << 20).check().is_err());
        assert!(Spec::new("x").cpus(f64::NAN).check().is_err());
    }

    #[test]
    fn folders_that_are_shown_cover_nothing() {
        assert!(Spec::new("x").shared_dir("packages", "/var/packages").check().is_ok());
        for (name, path) in
            [("usr", "/x"), ("tmp", "/x"), ("", "/x"), ("a/b", "/x"), ("..", "/x"), ("a", "x")]
        {
            assert!(Spec::new("x").shared_dir(name, path).check().is_err(), "{name} {path}");
        }
    }

    #[test]
    fn images_are_known_by_short_and_long_names() {
        for (name, image) in [("base", Image::Base), ("agent-sandbox-python:latest", Image::Python)]
        {
            assert_eq!(name.parse(), Ok(image.clone()));
            assert_eq!(image.to_string().parse(), Ok(image));
        }
        assert_eq!("own:1".parse(), Ok(Image::Named("own:1".to_owned())));
    }
}
