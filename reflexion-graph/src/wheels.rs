//! Packages that programs may use. They are read from a local directory, without network access.
//!
//! The file `wheels.toml` in the directory lists the packages. Only listed packages can be used, and only if the hash
//! of the package file matches the listed hash:
//!
//! ```toml
//! [[wheel]]
//! name = "tabulate"
//! file = "tabulate-0.9.0-py3-none-any.whl"
//! sha256 = "024ca478df22e9340661486f85298cff5f6dcdba14f3813e8830015b9ed1948f"
//! needs = []
//! ```
//!
//! Packages are unpacked once, before the first program is written, and mounted read-only into the sandboxes.

mod unpack;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use app_support::files::FileError;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::language::Language;

/// Name of the file that lists the packages.
pub const LIST_FILE: &str = "wheels.toml";

const CREATE_LIST_HINT: &str = "create it with `[[wheel]]`, `name`, `file`, `sha256` and `needs` for each package that may be used";

/// The packages that programs may use.
#[derive(Clone, Debug, Default)]
pub struct Wheels {
    dir: PathBuf,
    by_name: BTreeMap<String, Wheel>,
}

/// An entry in the list of packages.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wheel {
    name: String,
    file: String,
    sha256: String,
    /// Names of other packages that this package requires.
    #[serde(default)]
    needs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    wheel: Vec<Wheel>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WheelError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {problem}", path.display())]
    List { path: PathBuf, problem: String },
    #[error("cannot unpack {}: {problem}; use a wheel, for example from `pip download`", path.display())]
    Unpack { path: PathBuf, problem: zip::result::ZipError },
    #[error(
        "{} is not the file listed in {LIST_FILE}: its SHA-256 is {found}; replace the file or correct the list",
        path.display()
    )]
    Hash { path: PathBuf, found: String },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "dependency unavailable: {}; {}",
    missing.join(", "),
    if available.is_empty() { "only the standard library is available".to_owned() }
    else { format!("available besides the standard library: {}", available.join(", ")) }
)]
pub struct UnavailableError {
    missing: Vec<String>,
    available: Vec<String>,
}

/// Contents of a package file.
#[derive(Debug)]
struct Package {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Wheels {
    /// Reads the list of packages in a directory.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, WheelError> {
        let dir = dir.into();
        let path = dir.join(LIST_FILE);
        let invalid = |problem: String| WheelError::List { path: path.clone(), problem };
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(invalid(format!("the file does not exist; {CREATE_LIST_HINT}")));
            }
            read => read.map_err(FileError::at(&path))?,
        };
        let list: List = toml::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        for wheel in &list.wheel {
            if Path::new(&wheel.file).file_name().is_none_or(|it| it != wheel.file.as_str()) {
                return Err(invalid(format!(
                    "`{}` is not a plain file name; remove any directory from it",
                    wheel.file
                )));
            }
            let name = normalize_name(&wheel.name);
            let is_name = |it: char| it.is_ascii_alphanumeric() || it == '-';
            if name.is_empty() || !name.chars().all(is_name) {
                return Err(invalid(format!("`{}` is not a valid package name", wheel.name)));
            }
        }
        let by_name = list.wheel.into_iter().map(|it| (normalize_name(&it.name), it)).collect();
        Ok(Self { dir, by_name })
    }

    /// Returns whether no package is listed.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns the names of all listed packages.
    pub fn names(&self) -> Vec<String> {
        self.by_name.values().map(|it| it.name.clone()).collect()
    }

    /// Returns the listed packages that a program with these dependencies needs, including transitive dependencies.
    pub(crate) fn resolve(
        &self,
        dependencies: &[String],
        language: &dyn Language,
    ) -> Result<BTreeSet<String>, UnavailableError> {
        let mut resolved = BTreeSet::new();
        let mut missing = Vec::new();
        let mut pending: Vec<String> = dependencies.to_vec();
        while let Some(name) = pending.pop() {
            if name.trim().is_empty() || language.has(&name) {
                continue;
            }
            match self.by_name.get(&normalize_name(&name)) {
                None => missing.push(name),
                Some(wheel) => {
                    if resolved.insert(normalize_name(&name)) {
                        pending.extend(wheel.needs.iter().cloned());
                    }
                }
            }
        }
        missing.sort();
        missing.dedup();
        if missing.is_empty() {
            Ok(resolved)
        } else {
            Err(UnavailableError { missing, available: self.names() })
        }
    }

    /// Reads a package file and checks its hash.
    fn read(&self, name: &str) -> Result<Package, WheelError> {
        let wheel = &self.by_name[name];
        let path = self.dir.join(&wheel.file);
        let bytes = fs::read(&path).map_err(FileError::at(&path))?;
        let found = hex::encode(Sha256::digest(&bytes));
        if !found.eq_ignore_ascii_case(&wheel.sha256) {
            return Err(WheelError::Hash { path, found });
        }
        Ok(Package { path, bytes })
    }
}

/// Normalizes a package name: removes the version and extras, replaces `_` and `.` with `-`, and converts letters to
/// lower case.
fn normalize_name(name: &str) -> String {
    let end = name.find(['=', '<', '>', '!', '~', '[', ';', ' ']).unwrap_or(name.len());
    name[..end].trim().to_ascii_lowercase().replace(['_', '.'], "-")
}

#[cfg(test)]
mod tests {
    use super::{LIST_FILE, WheelError, Wheels};
    use crate::language::Python;

    fn dir(list: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(LIST_FILE), list).unwrap();
        std::fs::write(dir.path().join("a.whl"), "bytes").unwrap();
        dir
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
    fn only_listed_packages_resolve() {
        let dir = dir(LISTED);
        let wheels = Wheels::open(dir.path()).unwrap();
        let wanted = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
            wheels.resolve(&names, &Python)
        };
        assert!(wanted(&["json", "sys"]).unwrap().is_empty());
        let both = wanted(&["my_package>=1.0"]).unwrap();
        assert_eq!(both.iter().collect::<Vec<_>>(), ["my-package", "other"]);
        let error = wanted(&["numpy", "other"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "dependency unavailable: numpy; available besides the standard library: My.Package, other"
        );
        let error = Wheels::default().resolve(&["numpy".to_owned()], &Python).unwrap_err();
        assert!(error.to_string().ends_with("only the standard library is available"), "{error}");
    }

    #[test]
    fn files_with_another_hash_or_an_unsafe_name_are_rejected() {
        let dir = dir(LISTED);
        let wheels = Wheels::open(dir.path()).unwrap();
        assert_eq!(wheels.read("my-package").unwrap().bytes, b"bytes");
        std::fs::write(dir.path().join("a.whl"), "others").unwrap();
        assert!(matches!(wheels.read("my-package"), Err(WheelError::Hash { .. })));
        for (word, out) in [
            ("a.whl", "../a.whl"),
            ("a.whl", "/a.whl"),
            ("a.whl", ""),
            ("My.Package", "../other/x"),
        ] {
            let list = LISTED.replace(word, out);
            assert!(Wheels::open(self::dir(&list).path()).is_err(), "{out}");
        }
    }
}
