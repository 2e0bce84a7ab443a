//! Determines an apt package source for Debian backports, based on the mirror that the system already uses.

use std::{fs, path::Path};

/// Codename of the supported Debian release.
const RELEASE: &str = "bookworm";
/// Name of the backports suite for that release.
const BACKPORTS: &str = "bookworm-backports";

/// Returns the name and the content of a file for apt's directory `sources.list.d`, as two script arguments.
///
/// Returns an empty list if a source for backports is already configured or if no mirror is configured.
pub(crate) fn missing_source() -> Vec<String> {
    source_in(Path::new("/etc/apt")).map(Vec::from).unwrap_or_default()
}

/// Like [`missing_source`], but for the apt configuration in the given directory.
fn source_in(dir: &Path) -> Option<[String; 2]> {
    let parts = fs::read_dir(dir.join("sources.list.d")).into_iter().flatten().flatten();
    let mut files: Vec<_> = parts.map(|it| it.path()).collect();
    files.push(dir.join("sources.list"));
    files.sort();
    let mut found = None;
    for path in files {
        let format = match path.extension().and_then(|it| it.to_str()) {
            Some("list") => Format::Lines,
            Some("sources") => Format::Paragraphs,
            _ => continue,
        };
        let text = fs::read_to_string(path).unwrap_or_default();
        if format.copy(&text, BACKPORTS).is_some() {
            return None;
        }
        found = found.or_else(|| Some([format.file_name(), format.copy(&text, RELEASE)?]));
    }
    found
}

/// File format of an apt source.
#[derive(Clone, Copy)]
enum Format {
    /// One line per source, with its type, options, address, suite and components.
    Lines,
    /// One paragraph of fields per source (the deb822 format).
    Paragraphs,
}

impl Format {
    fn file_name(self) -> String {
        let extension = match self {
            Self::Lines => "list",
            Self::Paragraphs => "sources",
        };
        format!("{BACKPORTS}.{extension}")
    }

    /// Returns a copy of the first `deb` entry for `suite` in an apt sources file, with the backports suite in place of
    /// `suite`.
    fn copy(self, text: &str, suite: &str) -> Option<String> {
        match self {
            Self::Lines => text.lines().find_map(|it| copy_line(it, suite)),
            Self::Paragraphs => paragraphs(text).iter().find_map(|it| copy_paragraph(it, suite)),
        }
    }
}

fn copy_line(line: &str, suite: &str) -> Option<String> {
    let rest = line.trim().strip_prefix("deb")?;
    let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
    let (options, rest) = match rest.starts_with('[') {
        true => rest.split_at(rest.find(']')? + 1),
        false => ("", rest),
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    match words.as_slice() {
        [address, found, components @ ..] if *found == suite && is_mirror(address) => {
            let options = if options.is_empty() { options } else { &format!("{options} ") };
            Some(format!("deb {options}{address} {BACKPORTS} {}\n", components.join(" ")))
        }
        _ => None,
    }
}

/// Splits a file into paragraphs separated by empty lines and drops comment lines.
fn paragraphs(text: &str) -> Vec<Vec<&str>> {
    let lines: Vec<&str> = text.lines().filter(|it| !it.starts_with('#')).collect();
    lines.split(|it| it.trim().is_empty()).map(<[_]>::to_vec).collect()
}

fn copy_paragraph(lines: &[&str], suite: &str) -> Option<String> {
    let mut fields: Vec<(&str, String)> = Vec::new();
    for line in lines {
        match (line.starts_with([' ', '\t']), fields.last_mut()) {
            // Indented lines continue the previous value.
            (true, Some((_, value))) => *value += &format!("\n{line}"),
            _ => {
                let (name, value) = line.split_once(':')?;
                fields.push((name.trim(), value.trim().to_owned()));
            }
        }
    }
    let field = |name: &str| fields.iter().find(|it| it.0.eq_ignore_ascii_case(name));
    let words = |name: &str| field(name).map_or("", |it| &it.1).split_whitespace();
    let wanted = words("Types").any(|it| it == "deb")
        && words("Suites").any(|it| it == suite)
        && words("URIs").any(is_mirror)
        && words("Enabled").all(|it| it != "no");
    let copied = fields.iter().map(|(name, value)| match name.to_ascii_lowercase().as_str() {
        "types" => format!("{name}: deb\n"),
        "suites" => format!("{name}: {BACKPORTS}\n"),
        _ => format!("{name}: {value}\n"),
    });
    wanted.then(|| copied.collect())
}

/// Returns whether the address is a network mirror and not an installation medium, which contains no backports.
fn is_mirror(address: &str) -> bool {
    !address.starts_with("cdrom:")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks which apt source is generated for a system with the given apt source files.
    #[track_caller]
    fn check(files: &[(&str, &str)], expect: Option<(&str, &str)>) {
        let dir = std::env::temp_dir().join(format!("xtask-apt-{}", std::process::id()));
        fs::create_dir_all(dir.join("sources.list.d")).unwrap();
        for (name, text) in files {
            fs::write(dir.join(name), text).unwrap();
        }
        let found = source_in(&dir);
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found, expect.map(|(name, text)| [name.to_owned(), text.to_owned()]));
    }

    const LINES: &str = "\
# deb http://old.example/debian bookworm main
deb cdrom:[Debian 12]/ bookworm main
deb-src http://mirror.example/debian bookworm main
deb http://security.example/debian-security bookworm-security main
deb [arch=amd64 signed-by=/keys/a.gpg] http://mirror.example/debian bookworm main contrib
";

    const PARAGRAPHS: &str = "\
Types: deb
URIs: http://security.example/debian-security
Suites: bookworm-security
Components: main

Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
Enabled: no

Types: deb deb-src
# where it was built from
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By:
 -----BEGIN KEY-----
 .
 -----END KEY-----
";

    /// All cases are in one test because they use the same directory.
    #[test]
    fn backports_use_the_configured_mirror() {
        check(&[], None);
        let line = "deb [arch=amd64 signed-by=/keys/a.gpg] http://mirror.example/debian \
                    bookworm-backports main contrib\n";
        check(&[("sources.list", LINES)], Some(("bookworm-backports.list", line)));
        let paragraph = "\
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm-backports
Components: main
Signed-By: \n -----BEGIN KEY-----\n .\n -----END KEY-----\n";
        let file = ("sources.list.d/debian.sources", PARAGRAPHS);
        check(&[file], Some(("bookworm-backports.sources", paragraph)));
        // No source is added if any file already configures backports.
        check(&[file, ("sources.list.d/own.list", line)], None);
        check(&[("sources.list", LINES), ("sources.list.d/own.sources", paragraph)], None);
        // No source is added for an unsupported release or for a file that apt ignores.
        check(&[("sources.list", "deb http://mirror.example/debian trixie main\n")], None);
        check(&[("sources.list.d/debian.sources.disabled", PARAGRAPHS)], None);
    }
}
