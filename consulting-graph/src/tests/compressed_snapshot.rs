//! Snapshots that are too large to be stored as text.

use std::{
    env, fs,
    io::{Read, Write},
    path::Path,
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

/// Number of characters of a line that a failed comparison shows.
const SHOWN_CHARS: usize = 300;

/// Compares a text with the snapshot in `snapshots/NAME.txt.gz`. `INSTA_UPDATE=always` writes the snapshot instead, as
/// it does with all other snapshots.
pub(crate) fn assert_compressed_snapshot(name: &str, text: &str) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/snapshots");
    let path = dir.join(format!("{name}.txt.gz"));
    if env::var_os("INSTA_UPDATE").is_some_and(|it| it == "always") {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text.as_bytes()).unwrap();
        return fs::write(path, encoder.finish().unwrap()).unwrap();
    }
    let compressed = fs::read(&path).unwrap_or_else(|error| {
        panic!("cannot read {}: {error}; create it with INSTA_UPDATE=always", path.display())
    });
    let mut approved = String::new();
    GzDecoder::new(compressed.as_slice()).read_to_string(&mut approved).unwrap();
    assert!(
        approved == text,
        "{name} differs from its snapshot{}",
        first_difference(&approved, text)
    );
}

/// Describes the first line in which two texts differ, from the first different character.
fn first_difference(was: &str, now: &str) -> String {
    let (mut was, mut now) = (was.lines(), now.lines());
    for number in 1.. {
        let (was, now) = match (was.next(), now.next()) {
            (None, None) => break,
            (was, now) if was == now => continue,
            (was, now) => (was.unwrap_or("[end]"), now.unwrap_or("[end]")),
        };
        let n_equal = was.chars().zip(now.chars()).take_while(|(a, b)| a == b).count();
        let shown = |it: &str| it.chars().skip(n_equal).take(SHOWN_CHARS).collect::<String>();
        return format!(
            " on line {number}, character {}:\nwas: {}\nnow: {}",
            n_equal + 1,
            shown(was),
            shown(now)
        );
    }
    " only in its line endings".to_owned()
}
