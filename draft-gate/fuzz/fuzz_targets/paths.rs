//! Parses arbitrary paths. Accepted paths must be unchanged and stay beneath the directory to which they are joined.
#![no_main]

use std::path::{Component, Path};

use draft_gate::WorkspacePath;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|path: &str| {
    let Ok(parsed) = WorkspacePath::parse(path) else { return };
    assert_eq!(parsed.as_str(), path);
    assert!(Path::new(path).components().all(|it| matches!(it, Component::Normal(_))));
    let joined = if parsed.parent().is_empty() {
        parsed.name().to_owned()
    } else {
        format!("{}/{}", parsed.parent(), parsed.name())
    };
    assert_eq!(joined, path);
});
