//! Checks that a `main` that returns an error of a library prints its message and its causes, not its fields: the
//! `Debug` form of these errors is implemented with `readable_debug!` or by hand.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::{
    fs, mem,
    path::{Path, PathBuf},
};

const LIBRARIES: [&str; 10] = [
    "checkpoint-testkit", "draft-gate", "graph-agents", "graph-cluster", "graph-core",
    "graph-server", "graph-store", "graph-trace", "llm", "sandbox-vm",
];

#[test]
fn public_errors_do_not_derive_debug() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut n_errors = 0;
    for file in LIBRARIES.iter().flat_map(|it| sources(&workspace.join(it).join("src"))) {
        for (derive, item) in public_errors(&fs::read_to_string(&file).unwrap()) {
            n_errors += 1;
            let hint = "replace the derive of `Debug` with `readable_debug!`";
            assert!(!derive.contains("Debug"), "{}: {item} {hint}", file.display());
        }
    }
    assert!(n_errors > 30, "only {n_errors} errors were found");
}

/// Returns the source files below a directory.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|it| it.unwrap().path());
    let files = |path: PathBuf| if path.is_dir() { sources(&path) } else { vec![path] };
    paths.flat_map(files).filter(|it| it.extension().is_some_and(|it| it == "rs")).collect()
}

/// Returns the public errors of a source file: the line of their derives and that of their declaration.
fn public_errors(text: &str) -> Vec<(&str, &str)> {
    let mut derive = "";
    let mut errors = Vec::new();
    for line in text.lines() {
        if line.starts_with("#[derive(") {
            derive = line;
        } else if line.contains("struct ") || line.contains("enum ") {
            let derive = mem::take(&mut derive);
            if line.starts_with("pub ") && derive.contains("Error") {
                errors.push((derive, line));
            }
        }
    }
    errors
}
