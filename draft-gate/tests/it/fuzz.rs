//! Fuzz targets for the input of hostile workers.

use std::path::{Component, Path};

use draft_gate::{Error, FileDiff, WorkspacePath, extract, scan};
use fuzz_testkit::Fuzzer;

/// Parses a path. An accepted path must be unchanged and stay below the directory to which it is joined.
fn parse_path(input: &[u8]) -> Result<usize, &'static str> {
    let path = String::from_utf8_lossy(input);
    let parsed = match WorkspacePath::parse(&path) {
        Ok(parsed) => parsed,
        Err(Error::InvalidPath { fault, .. }) => return Err(fault),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(parsed.as_str(), path);
    let components: Vec<Component<'_>> = Path::new(&*path).components().collect();
    assert!(components.iter().all(|it| matches!(it, Component::Normal(_))), "{path:?}");
    assert!(!path.contains(['\\', '\0', '\n']), "{path:?}");
    let joined = match parsed.parent() {
        "" => parsed.name().to_owned(),
        parent => format!("{parent}/{}", parsed.name()),
    };
    assert_eq!(joined, path);
    Ok(components.len())
}

#[test]
fn accepted_paths_stay_in_the_workspace() {
    let words = [
        "..", "/", "\\", "./", "%2e%2e%2f", "\0", "\u{202e}", "\u{3164}", "\u{ff0e}", "a\u{301}",
        "CON", ".git", "~", ":", "C:\\", " ", "_handoff",
    ];
    let seeds =
        ["src/a.py", "a", "docs/deep/er/file.md", "../x", "/etc/passwd", "a/../../b", "é/ü.txt"];
    Fuzzer::new("paths").seeds(seeds).words(words).max_len(512).run(parse_path);
}

/// Separates the old text from the new one in an input.
const SEPARATOR: u8 = 0xff;

/// Compares two texts. Applying the diff to the old text must yield the new one, and the gate must process the
/// submitted text without a panic.
fn compare(input: &[u8]) -> impl std::hash::Hash + use<> {
    let at = input.iter().position(|it| *it == SEPARATOR).unwrap_or(input.len());
    let (old, new) = (&input[..at], input.get(at + 1..).unwrap_or_default());
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let diff = FileDiff::new(&old, &new);
    let lines: Vec<&str> = new.split_inclusive('\n').collect();
    for (number, line) in &diff.added {
        let expected = lines[*number as usize - 1].trim_end_matches('\n');
        assert_eq!(expected, line.trim_end_matches('\n'));
    }
    let patch = format!("--- a\n+++ b\n{}", diff.unified);
    let patch = diffy::Patch::from_str(&patch).expect("the diff is valid");
    assert_eq!(diffy::apply(&old, &patch).expect("the diff applies"), new);
    let findings = scan("a.txt", &diff.added).len();
    let extracted = extract(&new).map(|it| it.len());
    let size = |it: usize| it.checked_ilog2();
    let counts = (size(diff.added.len()), size(diff.removed as usize));
    (counts, diff.is_line_ends_only, findings, extracted)
}

#[test]
fn diffs_describe_the_change_of_any_text() {
    let seed = |old: &str, new: &str| [old.as_bytes(), &[SEPARATOR], new.as_bytes()].concat();
    let seeds = [
        seed("a\nb\nc\n", "a\nx\nc\n"),
        seed("", "password = \"hunter2hunter2\"\n"),
        seed("one\r\ntwo\r\n", "one\ntwo"),
        seed("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "2\n3\n4\n5\n6\n7\n8\n9\n10\n"),
        seed("", "```python\n# file: src/a.py\nprint(1)\n```\n"),
    ];
    let words = [
        "\n", "\r\n", "\r", "\n\n\n", "```", "```rust\n", "# file: a.rs\n", "@@ -1 +1 @@", "+++ b",
        "--- a", "\\ No newline at end of file", "AKIA", "-----BEGIN PRIVATE KEY-----", "token=",
        "\u{2028}", "\u{200b}",
    ];
    let words = words.map(str::as_bytes).map(<[u8]>::to_vec).into_iter().chain([vec![SEPARATOR]]);
    Fuzzer::new("diffs").seeds(seeds).words(words).max_len(1024).run(compare);
}
