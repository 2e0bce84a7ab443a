//! Specifies what a sandbox contains and what it may use.

use std::{
    collections::BTreeMap, convert::Infallible, fmt, path::PathBuf, str::FromStr, time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{Error, limits::Limits};

/// The specification of a sandbox: its name, contents, limits and lifetime.
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
    /// Name of the sandbox; unique among live sandboxes.
    pub name: String,
    /// Programs and libraries that are available in the guest.
    pub image: Image,
    /// Host directories that are mounted read-only at the guest's root. The key is the directory's name in the guest.
    #[serde(default)]
    pub shared_dirs: BTreeMap<String, PathBuf>,
    /// Labels by which the sandbox can be found.
    pub labels: BTreeMap<String, String>,
    /// Intended location, for information only. It counts as the label `region` when sandboxes are searched by label,
    /// but all back ends in this crate run guests on this machine.
    pub region: Option<String>,
    /// Resource limits.
    pub limits: Limits,
    /// Time after which the sandbox is removed, even if it is busy.
    pub lifetime: Duration,
}

impl Spec {
    /// Creates a spec with default limits and a lifetime of one hour.
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

    /// Sets the image, which determines the programs and libraries in the guest.
    pub fn image(mut self, image: Image) -> Self {
        self.image = image;
        self
    }

    /// Shares a host directory with the guest. The directory is mounted read-only, under `name`, at the guest's root.
    ///
    /// Files that are added to the directory later are visible too. If the host runs as root, the guest runs as user
    /// `nobody`, so the directory and its files must be accessible to all users. A back end that cannot share
    /// directories refuses the sandbox; see
    /// [`Guarantee::SharedDirectories`](crate::report::Guarantee::SharedDirectories).
    pub fn shared_dir(mut self, name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        self.shared_dirs.insert(name.into(), path.into());
        self
    }

    /// Sets the memory limit in bytes.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.limits.memory = bytes;
        self
    }

    /// Sets the number of processors. A value of 0.5 allows half of one processor's time.
    pub fn cpus(mut self, cpus: f64) -> Self {
        self.limits.cpus = cpus;
        self
    }

    /// Adds a label.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Sets the region, which has no effect beyond being a label.
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.region = Some(region.into());
        self
    }

    /// Sets all resource limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the time after which the sandbox is removed, even if it is busy.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Returns an error if no back end can accept the spec.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let problem = if self.name.is_empty() || self.name.len() > 128 {
            "its name must have 1 to 128 characters"
        } else if !self.name.chars().all(|it| it.is_ascii_alphanumeric() || "-_.".contains(it)) {
            "its name may contain only letters, digits, `-`, `_` and `.`; see `Spec::sanitize_name`"
        } else if self.name.starts_with('.') {
            "its name must not start with a dot"
        } else if self.limits.memory < MIN_MEMORY {
            "it needs at least 32 MiB of memory"
        } else if !(self.limits.cpus > 0.0 && self.limits.cpus <= 1024.0) {
            "its number of processors must be above 0 and at most 1024"
        } else if self.limits.processes < 4 {
            "it needs at least 4 processes"
        } else if self.limits.disk < MIN_DISK {
            "it needs at least 64 KiB of disk"
        } else if self.limits.files < MIN_FILES {
            "it needs at least 16 files"
        } else if !self.shared_dirs.keys().all(|it| is_valid_dir_name(it)) {
            "the name of a shared directory may contain only letters, digits, `-` and `_`, and must not be the name of a directory in the guest's root"
        } else if !self.shared_dirs.values().all(|it| it.is_absolute()) {
            "the path of a shared directory must be absolute"
        } else {
            return Ok(());
        };
        Err(Error::BadSpec { name: self.name.clone(), problem })
    }

    /// Converts a text to a valid part of a sandbox name. For example, `^GSPC` becomes `-gspc` and `BRK.B` becomes
    /// `brk.b`.
    pub fn sanitize_name(text: &str) -> String {
        let clean = |it: char| match it.to_ascii_lowercase() {
            it if it.is_ascii_alphanumeric() || "-_.".contains(it) => it,
            _ => '-',
        };
        text.chars().map(clean).take(128).collect()
    }
}

/// Default directory for a guest's files.
pub(crate) const WORKSPACE: &str = "/workspace";

/// Minimum memory, in bytes, with which the agent can start.
const MIN_MEMORY: u64 = 32 << 20;

/// Minimum disk limit, in bytes. A limit of 0 would mean that there is no limit.
const MIN_DISK: u64 = 64 << 10;
const MIN_FILES: u32 = 16;

/// Names that already exist at the guest's root.
const RESERVED_ROOT_NAMES: [&str; 15] = [
    "agent", "bin", "dev", "etc", "init", "lib", "lib64", "modules", "proc", "sbin", "store",
    "sys", "tmp", "usr", "workspace",
];

fn is_valid_dir_name(name: &str) -> bool {
    let is_plain = name.chars().all(|it| it.is_ascii_alphanumeric() || "-_".contains(it));
    is_plain && !name.is_empty() && !RESERVED_ROOT_NAMES.contains(&name)
}

/// The programs and libraries in a sandbox, in addition to the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Image {
    /// No additional programs.
    #[default]
    Base,
    /// Python with its standard library, and common shell tools.
    Python,
    /// An image that a back end knows by this name.
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
    fn ticker_symbols_become_valid_sandbox_names() {
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
    fn shared_directories_cannot_hide_guest_directories() {
        assert!(Spec::new("x").shared_dir("packages", "/var/packages").check().is_ok());
        for (name, path) in
            [("usr", "/x"), ("tmp", "/x"), ("", "/x"), ("a/b", "/x"), ("..", "/x"), ("a", "x")]
        {
            assert!(Spec::new("x").shared_dir(name, path).check().is_err(), "{name} {path}");
        }
    }

    #[test]
    fn images_parse_from_short_and_long_names() {
        for (name, image) in [("base", Image::Base), ("agent-sandbox-python:latest", Image::Python)]
        {
            assert_eq!(name.parse(), Ok(image.clone()));
            assert_eq!(image.to_string().parse(), Ok(image));
        }
        assert_eq!("own:1".parse(), Ok(Image::Named("own:1".to_owned())));
    }
}
