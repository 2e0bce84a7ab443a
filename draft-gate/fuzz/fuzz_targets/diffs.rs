//! Compares arbitrary texts. Applying the diff to the old text must yield the new text, and scanning the added lines
//! must not panic.
#![no_main]

use draft_gate::{FileDiff, scan};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: (&str, &str)| {
    let (old, new) = texts;
    let diff = FileDiff::new(old, new);
    let lines: Vec<&str> = new.split_inclusive('\n').collect();
    for (number, line) in &diff.added {
        assert_eq!(lines[*number as usize - 1].trim_end_matches('\n'), line.trim_end_matches('\n'));
    }
    let _ = scan("a.txt", &diff.added);
    let _ = draft_gate::extract(new);
    let patch = format!("--- a\n+++ b\n{}", diff.unified);
    let patch = diffy::Patch::from_str(&patch).expect("the diff is valid");
    assert_eq!(diffy::apply(old, &patch).expect("the diff applies"), new);
});
