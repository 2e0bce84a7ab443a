//! Names: which paths name a file of the workspace, and which files are not for workers.
//!
//! This is policy on text. What keeps a worker inside is `confine`, which would hold without it; the policy keeps
//! out names that mean something else to a person, another system or the next program.

use std::fmt;

use serde::{Deserialize, Serialize};
use unicode_normalization::is_nfc;

use crate::{
    error::{Error, shown},
    visible::is_unseen,
};

/// A relative path of plain components.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct WorkspacePath(String);

const MAX_COMPONENTS: usize = 32;
const MAX_COMPONENT: usize = 255;
const MAX_PATH: usize = 1024;

impl WorkspacePath {
    /// Takes a path as a worker writes it.
    pub fn parse(given: &str) -> Result<Self, Error> {
        match fault(given) {
            Some(fault) => Err(Error::BadPath { path: shown(given), fault }),
            None => Ok(Self(given.to_owned())),
        }
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folder that the file is in; empty for the workspace itself.
    #[must_use]
    pub fn parent(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(parent, _)| parent)
    }

    /// The file's own name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(self.0.as_str(), |(_, name)| name)
    }

    /// Whether editors, shells, version control, agents or servers act on the file as soon as it is there.
    #[must_use]
    pub fn is_tool_configuration(&self) -> bool {
        self.0.split('/').any(|it| TOOLS.contains(&it.to_lowercase().as_str()))
    }

    /// Refuses files that no worker may read or propose.
    pub fn unprotected(self) -> Result<Self, Error> {
        match self.0.split('/').find_map(protection) {
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

/// A path that comes from a stored file goes through the same door.
impl<'de> Deserialize<'de> for WorkspacePath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Takes the name of a task or a worker. Names are never rewritten: two different ones stay different.
pub(crate) fn plain_name<'a>(given: &'a str, what: &'static str) -> Result<&'a str, Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=64).contains(&given.len()) && given.bytes().all(is_plain) {
        return Ok(given);
    }
    if given.contains(['/', '\\', '%', '\0']) || given.contains("..") {
        return Err(Error::PathForName { given: shown(given), what });
    }
    Err(Error::BadName { given: shown(given), what })
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
        return Some("it is not in the normal form NFC");
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
    if name.chars().any(is_hidden) {
        return Some("it has control or invisible characters");
    }
    if name.contains(['\\', ':', '*', '?', '"', '<', '>', '|']) {
        return Some("it has a character that other systems read as more than a name");
    }
    if has_escape(name) {
        return Some("it has a percent escape");
    }
    if name.ends_with(['.', ' ']) || name.starts_with(' ') {
        return Some("a component starts or ends with a space, or ends with a dot");
    }
    is_device_name(name).then_some("it is a device's name on other systems")
}

/// What has no place in a name.
fn is_hidden(char: char) -> bool {
    char == '\t'
        || is_unseen(char)
        // Characters that look like a separator or like the dots of `..`.
        || matches!(char, '\u{2024}'..='\u{2026}' | '\u{2044}' | '\u{2215}' | '\u{29f8}' | '\u{ff0e}' | '\u{ff0f}' | '\u{ff3c}')
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

/// Folders that are not for workers, in any place of a path.
const FOLDERS: [&str; 11] = [
    ".git", ".hg", ".svn", ".jj", ".ssh", ".gnupg", ".aws", ".kube", ".docker", ".codex",
    "_handoff",
];

/// Files that hold credentials by their name.
const FILES: [&str; 16] = [
    ".vault-token",
    ".s3cfg",
    ".boto",
    "terraform.tfstate",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".htpasswd",
    ".git-credentials",
    ".dockercfg",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
];

/// Folders and files that make other people's tools run something, or that agents take orders from, in lower case.
const TOOLS: [&str; 46] = [
    // What runs builds elsewhere.
    ".github",
    ".gitlab-ci.yml",
    ".circleci",
    ".travis.yml",
    ".drone.yml",
    ".woodpecker.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "jenkinsfile",
    // Version control and its hooks.
    ".gitattributes",
    ".gitmodules",
    ".gitconfig",
    ".husky",
    ".pre-commit-config.yaml",
    ".lefthook.yml",
    "lefthook.yml",
    // Editors and package managers.
    ".vscode",
    ".idea",
    ".vim",
    ".vimrc",
    ".exrc",
    ".nvimrc",
    ".devcontainer",
    ".devcontainer.json",
    ".cargo",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    // Shells.
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    // Agents.
    ".claude",
    ".cursor",
    ".cursorrules",
    ".windsurf",
    ".windsurfrules",
    ".clinerules",
    ".gemini",
    ".mcp.json",
    ".aider.conf.yml",
    "agents.md",
    "claude.md",
    "gemini.md",
];

/// Endings of files that hold keys.
const ENDINGS: [&str; 10] =
    [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".asc", ".tfvars"];

/// Endings that editors and people give to copies.
const COPIES: [&str; 7] = ["~", ".bak", ".old", ".orig", ".save", ".swp", ".copy"];

/// Words that mark a file as one of credentials, where it is data and not code.
const WORDS: [&str; 6] =
    ["secret", "secrets", "credential", "credentials", "password", "passwords"];

/// Endings of files that are data.
const DATA: [&str; 13] = [
    "",
    "json",
    "yaml",
    "yml",
    "toml",
    "ini",
    "cfg",
    "conf",
    "txt",
    "xml",
    "properties",
    "csv",
    "enc",
];

fn protection(component: &str) -> Option<&'static str> {
    let name = component.to_lowercase();
    if FOLDERS.contains(&name.as_str()) {
        return Some("it is in a folder of tools");
    }
    let name = without_copy_marks(&name);
    let is_env = name.starts_with(".env") || name.ends_with(".env") || name == ".flaskenv";
    if is_env || FILES.contains(&name) || ENDINGS.iter().any(|it| name.ends_with(it)) {
        return Some("files of this kind hold credentials");
    }
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let mut words = name.split(|it: char| !it.is_alphanumeric());
    (DATA.contains(&ending) && words.any(|it| WORDS.contains(&it)))
        .then_some("files of this name hold credentials")
}

/// A copy of a file holds what the file holds.
fn without_copy_marks(mut name: &str) -> &str {
    while let Some(inner) = COPIES.iter().find_map(|it| name.strip_suffix(it)) {
        name = inner;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expect: Option<&str>) {
        let got = WorkspacePath::parse(path).and_then(WorkspacePath::unprotected);
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
    fn plain_paths_pass() {
        for path in [
            "a",
            "src/main.py",
            "a..b",
            "..a/b",
            "100% sure.txt",
            "ümlaut/日本.md",
            "secrets.rs",
            "password_reset.py",
            ".gitignore",
            "environment.py",
            "old.bak",
        ] {
            check(path, None);
        }
    }

    #[test]
    fn traversal_in_all_encodings() {
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
            ("x\0y", "invisible"),
            ("x\ny", "invisible"),
            ("\u{202e}fdp.exe", "invisible"),
            ("a\u{200b}b", "invisible"),
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
    fn files_that_are_not_for_workers() {
        for path in [
            ".env",
            ".ENV",
            ".env.local",
            ".env-prod",
            ".env_local",
            ".env~",
            ".flaskenv",
            "secrets.yaml.bak",
            "server.pem.old",
            "id_rsa.bak~",
            "prod.tfvars",
            "terraform.tfstate",
            ".vault-token",
            "prod.env",
            "a/.env",
            ".git/config",
            "x/.GIT/hooks/pre-commit",
            "_handoff/TASK_CONTRACT.json",
            "_HANDOFF/transition.ndjson",
            "server.pem",
            "tls.KEY",
            ".ssh/config",
            "id_rsa",
            "secrets.yaml",
            "client_secret_7.json",
            "passwords.txt",
            "credentials",
            ".npmrc",
        ] {
            check(
                path,
                Some("hold credentials")
                    .filter(|_| {
                        !path.to_lowercase().contains("git/")
                            && !path.to_lowercase().contains("handoff")
                            && !path.contains(".ssh")
                    })
                    .or(Some("folder of tools")),
            );
        }
    }

    #[test]
    fn names_of_tasks_are_taken_as_they_are_or_not_at_all() {
        for name in ["a-b", "a_b", "phase10_version_flag"] {
            assert_eq!(plain_name(name, "task id").unwrap(), name);
        }
        for name in ["", "a/b", "..", "a b", "a.b", "ä", &"a".repeat(65)] {
            assert!(plain_name(name, "task id").is_err(), "{name}");
        }
    }
}
