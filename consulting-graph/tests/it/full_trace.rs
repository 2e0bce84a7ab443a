//! The trace of a run of full size: 5 analysts, 15 moves and 10 rounds. The stored trace is compressed, because it is
//! large.

use std::{
    env,
    fs::{self, File},
    io::{Read, Write},
    path::Path,
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use graph_trace::{Detail, TextOptions, Trace};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/snapshots/trace_full.txt.gz");

/// Maximum size of the stored trace in bytes.
const MAX_BYTES: u64 = 300_000;

/// Compares a trace with the stored one. If insta's variable `INSTA_UPDATE` is `always`, stores the trace instead.
#[track_caller]
pub(crate) fn check(trace: &Trace) {
    let text = trace.text(TextOptions::new(Detail::Updates));
    if env::var("INSTA_UPDATE").is_ok_and(|it| it == "always") {
        let mut file = GzEncoder::new(File::create(FILE).unwrap(), Compression::best());
        file.write_all(text.as_bytes()).unwrap();
        file.finish().unwrap();
    }
    let mut stored = String::new();
    GzDecoder::new(File::open(FILE).unwrap()).read_to_string(&mut stored).unwrap();
    if let Some(problem) = difference(&stored, &text) {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trace_full.txt");
        fs::write(&new, &text).unwrap();
        panic!(
            "the trace differs from {FILE} {problem}\nThe new trace is {}. Compare them with \
             `zcat {FILE} | diff - {}`. If the change is intended, accept it with \
             `INSTA_UPDATE=always cargo test -p consulting-graph default_run`.",
            new.display(),
            new.display()
        );
    }
    let size = fs::metadata(FILE).unwrap().len();
    assert!(size < MAX_BYTES, "{FILE} has {size} bytes");
}

/// Returns the first line in which the texts differ.
fn difference(stored: &str, text: &str) -> Option<String> {
    let (mut old, mut new) = (stored.lines(), text.lines());
    for number in 1.. {
        match (old.next(), new.next()) {
            (None, None) => return None,
            (old, new) if old == new => {}
            (old, new) => {
                let [old, new] = [old, new].map(|it| it.unwrap_or("(the end)"));
                return Some(format!("at line {number}:\n- {old}\n+ {new}"));
            }
        }
    }
    None
}

#[test]
fn first_different_line_is_found() {
    assert_eq!(difference("a\nb\n", "a\nb\n"), None);
    assert_eq!(difference("a\nb\n", "a\nc\n").unwrap(), "at line 2:\n- b\n+ c");
    assert_eq!(difference("a\n", "a\nb\n").unwrap(), "at line 2:\n- (the end)\n+ b");
}
