//! The path policy: which paths are valid, and which files workers may not access.
//!
//! The policy considers only the text of a path. Confinement to the workspace is enforced by `confine` and does not
//! depend on the policy. The policy rejects names that people, other operating systems or other programs would
//! interpret differently.

use std::fmt;

use serde::{Deserialize, Serialize};
use unicode_normalization::is_nfc;

use crate::{
    error::Error,
    escape::escape_for_message,
    protection::reason_for_protection,
    unicode::{confusable_word, is_invisible, is_special_space, looks_special_in_paths},
};

/// A relative path in the workspace that has only normal components.
///
/// ```
/// use draft_gate::WorkspacePath;
///
/// let path = WorkspacePath::parse("src/main.py")?;
/// assert_eq!((path.parent(), path.name()), ("src", "main.py"));
/// assert!(WorkspacePath::parse("../secrets").is_err());
/// # Ok::<(), draft_gate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct WorkspacePath(String);

const MAX_COMPONENTS: usize = 32;
const MAX_COMPONENT: usize = 255;
const MAX_PATH: usize = 1024;

impl WorkspacePath {
    /// Parses and validates a path that a worker provided.
    pub fn parse(given: &str) -> Result<Self, Error> {
        match fault(given) {
            Some(fault) => Err(Error::InvalidPath { path: escape_for_message(given), fault }),
            None => Ok(Self(given.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the path of the parent directory. The path is empty if the parent is the workspace root.
    pub fn parent(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(parent, _)| parent)
    }

    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(self.0.as_str(), |(_, name)| name)
    }

    /// Fails if workers may not read or change the file.
    pub(crate) fn ensure_unprotected(self) -> Result<Self, Error> {
        match self.0.split('/').find_map(reason_for_protection) {
            Some(why) => Err(Error::Protected { path: self.0, why }),
            None => Ok(self),
        }
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Validates a stored path in the same way as a path that a worker provided.
impl<'de> Deserialize<'de> for WorkspacePath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Validates the name of a task or worker. Does not normalize the name, so that different names stay different.
pub(crate) fn validate_name<'a>(given: &'a str, what: &'static str) -> Result<&'a str, Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=64).contains(&given.len()) && given.bytes().all(is_plain) {
        return Ok(given);
    }
    if given.contains(['/', '\\', '%', '\0']) || given.contains("..") {
        return Err(Error::PathAsName { given: escape_for_message(given), what });
    }
    Err(Error::InvalidName { given: escape_for_message(given), what })
}

fn fault(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("it is empty");
    }
    if path.len() > MAX_PATH || path.split('/').count() > MAX_COMPONENTS {
        return Some("it is too long");
    }
    if path.starts_with('/') {
        return Some("it is absolute");
    }
    if !is_nfc(path) {
        return Some("it is not in Unicode normalization form NFC");
    }
    path.split('/').find_map(component_fault)
}

fn component_fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it has an empty component");
    }
    if name == "." || name == ".." {
        return Some("it has a `.` or `..` component");
    }
    if name.len() > MAX_COMPONENT {
        return Some("it is too long");
    }
    if name.chars().any(is_forbidden_char) {
        return Some(
            "it has control or invisible characters, or characters that look like `/`, `.` or other special characters",
        );
    }
    if name.contains(['\\', ':', '*', '?', '"', '<', '>', '|']) {
        return Some("it has a character with a special meaning on other systems");
    }
    if has_escape(name) {
        return Some("it has a percent escape");
    }
    if name.ends_with(['.', ' ']) || name.starts_with(' ') {
        return Some("a component starts or ends with a space, or ends with a dot");
    }
    if confusable_word(name).is_some() {
        return Some("it mixes scripts or has characters that look like other characters");
    }
    is_device_name(name).then_some("it is a device name on other systems")
}

/// Returns whether a character is forbidden in names.
fn is_forbidden_char(char: char) -> bool {
    char == '\t' || is_invisible(char) || is_special_space(char) || looks_special_in_paths(char)
}

fn has_escape(name: &str) -> bool {
    let is_hex = |byte: &u8| byte.is_ascii_hexdigit();
    name.as_bytes().windows(3).any(|it| it[0] == b'%' && is_hex(&it[1]) && is_hex(&it[2]))
}

fn is_device_name(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    let is_numbered = |kind: &str| {
        stem.strip_prefix(kind).is_some_and(|it| it.len() == 1 && it.as_bytes()[0].is_ascii_digit())
    };
    matches!(stem.as_str(), "con" | "prn" | "aux" | "nul")
        || is_numbered("com")
        || is_numbered("lpt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expect: Option<&str>) {
        let got = WorkspacePath::parse(path).and_then(WorkspacePath::ensure_unprotected);
        match (got, expect) {
            (Ok(got), None) => assert_eq!(got.as_str(), path),
            (Err(error), Some(expect)) => {
                assert!(error.to_string().contains(expect), "{path:?}: {error}");
                assert!(error.is_violation());
            }
            (got, _) => panic!("{path:?}: {got:?}"),
        }
    }

    #[test]
    fn normal_paths_are_accepted() {
        for path in [
            "a", "src/main.py", "a..b", "..a/b", "100% sure.txt", "ümlaut/日本.md", "документ.txt",
            "١٠.txt", "it’s — «a» · b.md", "secrets.rs", "password_reset.py", ".gitignore",
            "environment.py", "old.bak",
        ] {
            check(path, None);
        }
    }

    #[test]
    fn path_traversal_is_rejected_in_all_encodings() {
        for (path, expect) in [
            ("..", "`..`"),
            ("../x", "`..`"),
            ("src/../../x", "`..`"),
            ("./x", "`.` or"),
            ("/etc/passwd", "absolute"),
            ("//x", "absolute"),
            ("src//x", "empty"),
            ("src/", "empty"),
            ("", "empty"),
            ("..\\x", "other systems"),
            ("C:\\x", "other systems"),
            ("x:stream", "other systems"),
            ("%2e%2e/x", "percent"),
            ("%2e%2e%2fx", "percent"),
            ("%252e%252e%252fx", "percent"),
            ("..%c0%afx", "percent"),
            ("\u{2025}/x", "invisible"),
            ("\u{ff0e}\u{ff0e}/x", "invisible"),
            ("..\u{2215}x", "invisible"),
            ("a\u{2026}b", "look like `/`"),
            ("..\u{2044}x", "look like `/`"),
            ("..\u{ff0f}x", "look like `/`"),
            ("..\u{ff3c}x", "look like `/`"),
            ("..\u{2571}x", "look like `/`"),
            ("..\u{2572}x", "look like `/`"),
            ("..\u{29f8}x", "look like `/`"),
            ("..\u{29f9}x", "look like `/`"),
            ("..\u{27cb}x", "look like `/`"),
            ("c\u{2236}x", "look like `/`"),
            ("x\0y", "invisible"),
            ("x\ny", "invisible"),
            ("\u{202e}fdp.exe", "invisible"),
            ("a\u{200b}b", "invisible"),
            ("a\u{3164}b", "invisible"),
            ("a\u{2800}.py", "invisible"),
            ("a\u{34f}b", "invisible"),
            ("a\u{a0}b", "invisible"),
            ("src/p\u{430}y.py", "mixes scripts"),
            ("𝐬rc/a.py", "look like"),
            ("ｓrc/a.py", "look like"),
            ("e\u{301}.txt", "NFC"),
            ("CON", "device"),
            ("nul.txt", "device"),
            ("com1.py", "device"),
            ("x.", "ends with a dot"),
            ("x /y", "space"),
        ] {
            check(path, Some(expect));
        }
        check(&"a".repeat(256), Some("too long"));
        check(&"a/".repeat(40), Some("too long"));
        check(&"a".repeat(5000), Some("too long"));
    }

    #[test]
    fn protected_files_are_rejected() {
        for path in [
            ".env", ".ENV", ".env.local", ".env-prod", ".env_local", ".env~", ".flaskenv",
            "secrets.yaml.bak", "server.pem.old", "id_rsa.bak~", "prod.tfvars",
            "terraform.tfstate", ".vault-token", "prod.env", "a/.env", "server.pem", "tls.KEY",
            "id_rsa", "secrets.yaml", "client_secret_7.json", "passwords.txt", "credentials",
            ".credentials", "prod.secrets", "a/service-account.json", "apple.p8", "krb5.keytab",
            "vpn.ovpn", "prod.tfstate", "kubeconfig", ".npmrc",
        ] {
            check(path, Some("contain credentials"));
        }
        for path in [
            ".git/config", "x/.GIT/hooks/pre-commit", "_handoff/TASK_CONTRACT.json",
            "_HANDOFF/transition.ndjson", ".ssh/config",
        ] {
            check(path, Some("directory that belongs to a tool"));
        }
    }

    #[test]
    fn invalid_names_are_rejected_and_never_rewritten() {
        for name in ["a-b", "a_b", "phase10_version_flag"] {
            assert_eq!(validate_name(name, "task id").unwrap(), name);
        }
        for name in ["", "a/b", "..", "a b", "a.b", "ä", &"a".repeat(65)] {
            assert!(validate_name(name, "task id").is_err(), "{name}");
        }
    }
}
