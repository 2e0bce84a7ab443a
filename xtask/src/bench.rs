//! `cargo xtask bench`: installs the peers of the benchmarks and runs the benchmarks, built with the bench profile.

use std::path::Path;

use crate::{error::Error, peers::target_dir, step::Step};

/// Script that installs LangGraph into a virtual environment. The requirements are copied next to it as the last action,
/// so a changed version or an interrupted installation leads to a new one.
const INSTALL_LANGGRAPH: &str = "\
cmp -s benches/peers/langgraph/requirements.txt \"$1/requirements.txt\" && exit
rm -rf \"$1\"
python3 -m venv \"$1\"
\"$1/bin/python\" -m pip install --quiet --requirement benches/peers/langgraph/requirements.txt
cp benches/peers/langgraph/requirements.txt \"$1\"";

/// Installs LangGraph into `bench-peers` in the target directory, then runs the benchmarks. If it cannot be installed,
/// it is absent from the results.
pub(crate) fn run(root: &Path, args: Vec<String>) -> Result<(), Error> {
    let help = args.iter().any(|it| it == "-h" || it == "--help");
    if !help && let Err(error) = install().run(root) {
        eprintln!("warning: {error}\nthe results will not contain LangGraph");
    }
    Step::cargo("programs", "build --profile bench -p graph-benches --bin works").run(root)?;
    step(args).run(root).map(|_duration| ())
}

fn install() -> Step {
    let dir = target_dir().join("bench-peers/langgraph").display().to_string();
    let script = INSTALL_LANGGRAPH.to_owned();
    Step::new("LangGraph", "sh", "-ec").args([script, "sh".to_owned(), dir])
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
