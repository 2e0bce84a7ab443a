//! `cargo xtask bench`: runs the benchmarks, built with the bench profile.

use std::path::Path;

use crate::{error::Error, step::Step};

pub(crate) fn run(root: &Path, args: Vec<String>) -> Result<(), Error> {
    step(args).run(root).map(|_duration| ())
}

fn step(args: Vec<String>) -> Step {
    Step::cargo("bench", "run --profile bench -p graph-benches --bin bench --").args(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_appended() {
        let step = step(vec!["fan".to_owned(), "--runs=3".to_owned()]);
        assert_eq!(
            step.to_string(),
            "cargo run --profile bench -p graph-benches --bin bench -- fan --runs=3"
        );
    }
}
