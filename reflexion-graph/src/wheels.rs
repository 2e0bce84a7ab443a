//! Packages: a folder of files that need no network, and a list of those that may be used.
//!
//! The list is the file `wheels.toml` in the folder. What is not on it cannot be used, and a file that is not the one
//! whose hash stands there is not either:
//!
//! ```toml
//! [[wheel]]
//! name = "tabulate"
//! file = "tabulate-0.9.0-py3-none-any.whl"
//! sha256 = "024ca478df22e9340661486f85298cff5f6dcdba14f3813e8830015b9ed1948f"
//! needs = []
//! ```
//!
//! Packages are unpacked once, before the first program is written, and sandboxes are shown them to read only.

mod shelf;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::language::Language;

/// The list's name.
pub const LIST: &str = "wheels.toml";

const HOW: &str = "write it, with `[[wheel]]`, `name`, `file`, `sha256` and `needs` for each package that may be used";

/// The packages that programs may use.
#[derive(Clone, Debug, Default)]
pub struct Wheels {
    folder: PathBuf,
    by_name: BTreeMap<String, Wheel>,
}

/// A package that may be used.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wheel {
    name: String,
    file: String,
    sha256: String,
    /// Other packages that it needs.
    #[serde(default)]
    needs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    wheel: Vec<Wheel>,
}

/// Why packages cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WheelError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The list cannot be read.
    #[error("{}: {problem}", path.display())]
    List {
        /// The list.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file is the right one, and yet no package.
    #[error("{} cannot be unpacked: {problem}; programs need a wheel, as `pip download` gets", path.display())]
    Unpack {
        /// The file.
        path: PathBuf,
        /// Why not.
        problem: zip::result::ZipError,
    },
    /// A file is not the one that the list names.
    #[error(
        "{} is not the file that {LIST} names: its SHA-256 is {found}; get the right file, or correct the list",
        path.display()
    )]
    Hash {
        /// The file.
        path: PathBuf,
        /// Its hash.
        found: String,
    },
}

/// Packages that are not to be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "dependency unavailable: {}; {}",
    missing.join(", "),
    if available.is_empty() { "only the standard library can be used".to_owned() }
    else { format!("besides the standard library there are: {}", available.join(", ")) }
)]
pub struct Unavailable {
    missing: Vec<String>,
    available: Vec<String>,
}

/// A package's file.
#[derive(Debug)]
struct Package {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Wheels {
    /// Reads a folder's list.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, WheelError> {
        let folder = folder.into();
        let path = folder.join(LIST);
        let wrong = |problem: String| WheelError::List { path: path.clone(), problem };
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(wrong(format!("it is not there; {HOW}")));
            }
            read => read.map_err(|source| WheelError::File { path: path.clone(), source })?,
        };
        let list: List = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        for wheel in &list.wheel {
            if Path::new(&wheel.file).file_name().is_none_or(|it| it != wheel.file.as_str()) {
                return Err(wrong(format!("`{}` is no file of this folder", wheel.file)));
            }
            let name = plain(&wheel.name);
            let is_name = |it: char| it.is_ascii_alphanumeric() || it == '-';
            if name.is_empty() || !name.chars().all(is_name) {
                return Err(wrong(format!("`{}` is no package's name", wheel.name)));
            }
        }
        let by_name = list.wheel.into_iter().map(|it| (plain(&it.name), it)).collect();
        Ok(Self { folder, by_name })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The names of all that there are.
    pub fn names(&self) -> Vec<String> {
        self.by_name.values().map(|it| it.name.clone()).collect()
    }

    /// Which packages a program needs that asks for these, with what those need.
    pub fn wanted(
        &self,
        dependencies: &[String],
        language: &dyn Language,
    ) -> Result<BTreeSet<String>, Unavailable> {
        let mut wanted = BTreeSet::new();
        let mut missing = Vec::new();
        let mut open: Vec<String> = dependencies.to_vec();
        while let Some(name) = open.pop() {
            if name.trim().is_empty() || language.has(&name) {
                continue;
            }
            match self.by_name.get(&plain(&name)) {
                None => missing.push(name),
                Some(wheel) => {
                    if wanted.insert(plain(&name)) {
                        open.extend(wheel.needs.iter().cloned());
                    }
                }
            }
        }
        missing.sort();
        missing.dedup();
        if missing.is_empty() {
            Ok(wanted)
        } else {
            Err(Unavailable { missing, available: self.names() })
        }
    }

    /// Unpacks those that are not yet, each file seen to be the right one, and gives the folder that holds them all,
    /// each in a folder of its name.
    pub(crate) fn lay_out(&self, cache: Option<&Path>) -> Result<PathBuf, WheelError> {
        shelf::lay_out(self, cache.unwrap_or(&shelf::usual_cache()))
    }

    /// Reads a package's file, and sees that it is the right one.
    fn read(&self, name: &str) -> Result<Package, WheelError> {
        let wheel = &self.by_name[name];
        let path = self.folder.join(&wheel.file);
        let bytes =
            fs::read(&path).map_err(|source| WheelError::File { path: path.clone(), source })?;
        let found = hex(&Sha256::digest(&bytes));
        if !found.eq_ignore_ascii_case(&wheel.sha256) {
            return Err(WheelError::Hash { path, found });
        }
        Ok(Package { path, bytes })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

/// A package's name as it is compared: without version and extras, `_` and `.` as `-`, in small letters.
fn plain(name: &str) -> String {
    let end = name.find(['=', '<', '>', '!', '~', '[', ';', ' ']).unwrap_or(name.len());
    name[..end].trim().to_ascii_lowercase().replace(['_', '.'], "-")
}

#[cfg(test)]
mod tests {
    use super::{LIST, WheelError, Wheels};
    use crate::language::Python;

    fn folder(list: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(LIST), list).unwrap();
        std::fs::write(folder.path().join("a.whl"), "bytes").unwrap();
        folder
    }

    const LISTED: &str = r#"
        [[wheel]]
        name = "My.Package"
        file = "a.whl"
        sha256 = "277089D91C0BDF4F2E6862BA7E4A07605119431F5D13F726DD352B06F1B206A9"
        needs = ["other"]
        [[wheel]]
        name = "other"
        file = "b.whl"
        sha256 = "00"
    "#;

    #[test]
    fn only_what_is_listed_can_be_used() {
        let folder = folder(LISTED);
        let wheels = Wheels::open(folder.path()).unwrap();
        let wanted = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
            wheels.wanted(&names, &Python)
        };
        assert!(wanted(&["json", "sys"]).unwrap().is_empty());
        let both = wanted(&["my_package>=1.0"]).unwrap();
        assert_eq!(both.iter().collect::<Vec<_>>(), ["my-package", "other"]);
        let error = wanted(&["numpy", "other"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "dependency unavailable: numpy; besides the standard library there are: My.Package, other"
        );
        let error = Wheels::default().wanted(&["numpy".to_owned()], &Python).unwrap_err();
        assert!(error.to_string().ends_with("only the standard library can be used"), "{error}");
    }

    #[test]
    fn a_file_that_was_exchanged_is_refused() {
        let folder = folder(LISTED);
        let wheels = Wheels::open(folder.path()).unwrap();
        assert_eq!(wheels.read("my-package").unwrap().bytes, b"bytes");
        std::fs::write(folder.path().join("a.whl"), "others").unwrap();
        assert!(matches!(wheels.read("my-package"), Err(WheelError::Hash { .. })));
        for (word, out) in [
            ("a.whl", "../a.whl"),
            ("a.whl", "/a.whl"),
            ("a.whl", ""),
            ("My.Package", "../other/x"),
        ] {
            let list = LISTED.replace(word, out);
            assert!(Wheels::open(self::folder(&list).path()).is_err(), "{out}");
        }
    }
}
