//! Checks that the tests that documents name as evidence exist.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Each document, the header of the last column of its tables that name tests, and the minimum number of named tests.
const DOCUMENTS: [(&str, &str, usize); 3] = [
    ("SPECIFICATION.md", "test", 300),
    ("sandbox-vm/docs/design.md", "check or test", 25),
    ("book/chapters/threat-model.md", "how it is tested", 25),
];

#[test]
fn named_tests_exist() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let sources = Sources::read(workspace);
    for (document, header, min) in DOCUMENTS {
        let text = fs::read_to_string(workspace.join(document)).unwrap();
        let names = named_tests(&text, header);
        assert!(names.len() >= min, "{document} names only {} tests", names.len());
        let missing: Vec<_> = names.into_iter().filter(|it| !sources.contain(it)).collect();
        assert!(missing.is_empty(), "{document} names tests that do not exist: {missing:#?}");
    }
}

/// Returns the tests that the last columns of tables name. A name is the path of a test or of a module with tests, or
/// the name of a check of the conformance suite, such as `limits: disk`.
fn named_tests<'a>(text: &'a str, header: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    let mut names_tests = false;
    for line in text.lines() {
        let last = line.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or_default().trim();
        // A table ends with the first line that is not a row.
        names_tests = line.starts_with('|') && (names_tests || last == header);
        if names_tests {
            // After splitting at backquotes, every second part is inline code.
            names.extend(
                last.split('`').skip(1).step_by(2).filter(|it| is_path(it) || is_check(it)),
            );
        }
    }
    names
}

fn is_path(name: &str) -> bool {
    let is_part = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
    name.split("::")
        .all(|it| it.starts_with(|it: char| it.is_ascii_lowercase()) && it.chars().all(is_part))
}

fn is_check(name: &str) -> bool {
    let group = name.split_once(": ").map(|it| it.0);
    group.is_some_and(|it| it.chars().all(|it| it.is_ascii_lowercase()))
}

/// Names that the sources of the workspace declare.
struct Sources {
    functions_and_modules: BTreeSet<String>,
    /// Names of the checks of the conformance suite, and other strings.
    strings: BTreeSet<String>,
}

impl Sources {
    fn read(workspace: &Path) -> Self {
        let mut all = Self { functions_and_modules: BTreeSet::new(), strings: BTreeSet::new() };
        source_files(workspace).iter().for_each(|it| all.add(it));
        all
    }

    fn add(&mut self, file: &Path) {
        let module = file.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(file).unwrap();
        let functions = text.split("fn ").skip(1).filter_map(|it| it.split(['(', '<']).next());
        self.functions_and_modules.extend(functions.map(str::to_owned));
        self.functions_and_modules.insert(module);
        self.strings.extend(text.split('"').map(str::to_owned).filter(|it| is_check(it)));
    }

    fn contain(&self, name: &str) -> bool {
        if is_path(name) {
            let last = name.rsplit("::").next().unwrap_or(name);
            return self.functions_and_modules.contains(last);
        }
        match name.strip_suffix('…') {
            Some(start) => self.strings.iter().any(|it| it.starts_with(start)),
            None => self.strings.contains(name),
        }
    }
}

/// Returns the source files below a directory.
fn source_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()) {
        if path.is_dir() && !is_ignored(&path) {
            files.extend(source_files(&path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
    files
}

/// Returns whether a directory contains no sources of this workspace.
fn is_ignored(dir: &Path) -> bool {
    let name = dir.file_name().unwrap().to_string_lossy();
    name == "target" || name == "node_modules" || name.starts_with('.')
}
