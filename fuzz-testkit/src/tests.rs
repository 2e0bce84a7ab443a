use std::{cell::RefCell, fs, panic::catch_unwind};

use super::Fuzzer;

/// Returns the length of the common prefix. Simulates a target with one nested condition per byte.
fn matching(input: &[u8], expected: &[u8]) -> usize {
    input.iter().zip(expected).take_while(|(one, other)| one == other).count()
}

#[test]
fn inputs_with_new_behaviours_are_mutated_further() {
    let deepest = RefCell::new(0);
    Fuzzer::new("deep").seed(b"xxxxx").run_inputs(100_000, 1, |input| {
        let depth = matching(input, b"fuzz!");
        let mut deepest = deepest.borrow_mut();
        *deepest = depth.max(*deepest);
        depth
    });
    // Random bytes would reach this depth once in 10¹² inputs.
    assert_eq!(deepest.into_inner(), 5);
}

#[test]
fn runs_are_reproducible_and_respect_the_maximum_length() {
    let inputs = |seed| {
        let seen = RefCell::new(Vec::new());
        let fuzzer = Fuzzer::new("same").seed(b"{\"a\": 1}").words(["true", "null"]).max_len(64);
        fuzzer.run_inputs(500, seed, |input| {
            assert!(input.len() <= 64);
            seen.borrow_mut().push(input.to_vec());
            input.len()
        });
        seen.into_inner()
    };
    assert_eq!(inputs(7), inputs(7));
    assert_ne!(inputs(7), inputs(8));
}

#[test]
fn failing_inputs_are_reduced_stored_and_run_first() {
    let dir = tempfile::tempdir().unwrap();
    let fuzzer = |seed: &[u8]| {
        let mut fuzzer = Fuzzer::new("failing").seed(seed);
        fuzzer.dir = dir.path().join("failing");
        fuzzer
    };
    let target = |input: &[u8]| assert!(!input.windows(3).any(|it| it == b"bad"), "it is bad");
    let panic = catch_unwind(|| fuzzer(b"a long input that is bad in a place").run(target));
    let message = panic.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("fails on the input \"bad\""), "{message}");
    let stored: Vec<_> = fs::read_dir(dir.path().join("failing")).unwrap().collect();
    assert_eq!(stored.len(), 1);
    assert_eq!(fs::read(stored[0].as_ref().unwrap().path()).unwrap(), b"bad");
    // The stored input fails although the seed is harmless and nothing is mutated.
    assert!(catch_unwind(|| fuzzer(b"good").run_inputs(0, 0, target)).is_err());
}
