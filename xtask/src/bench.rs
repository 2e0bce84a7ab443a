//! `cargo xtask bench`: installs the peers of the benchmarks and runs the benchmarks, built with the bench profile.

use std::path::Path;

use crate::{error::Error, peers::target_dir, step::Step};

/// Script that installs LangGraph into a virtual environment. As its last action, it copies the requirements there, so
/// it repeats an interrupted installation, and installs LangGraph again if the requirements have changed.
const INSTALL_LANGGRAPH: &str = "\
cmp -s benches/peers/langgraph/requirements.txt \"$1/requirements.txt\" && exit
rm -rf \"$1\"
python3 -m venv \"$1\"
\"$1/bin/python\" -m pip install --quiet --requirement benches/peers/langgraph/requirements.txt
cp benches/peers/langgraph/requirements.txt \"$1\"";

/// Script that installs LangGraph.js. Node looks for packages next to the program, so the program is copied, too.
const INSTALL_LANGGRAPH_JS: &str = "\
mkdir -p \"$1\"
cp benches/peers/langgraph-js/workloads.mjs \"$1\"
cmp -s benches/peers/langgraph-js/package-lock.json \"$1/installed.json\" && exit
cp benches/peers/langgraph-js/package.json benches/peers/langgraph-js/package-lock.json \"$1\"
npm ci --silent --no-audit --no-fund --prefix \"$1\"
cp benches/peers/langgraph-js/package-lock.json \"$1/installed.json\"";

/// Installs the peers into `bench-peers` in the target directory, then runs the benchmarks. A peer that cannot be
/// installed is absent from the results.
pub(crate) fn run(root: &Path, args: Vec<String>) -> Result<(), Error> {
    if args.first().is_some_and(|it| it == "cluster") {
        return cluster().run(root).map(|_duration| ());
    }
    let help = args.iter().any(|it| it == "-h" || it == "--help");
    if !help {
        install_peers(root);
    }
    step(args).run(root).map(|_duration| ())
}

/// The benchmark of `graph-cluster` starts its own processes and needs no peers.
fn cluster() -> Step {
    Step::cargo("cluster", "bench -p graph-cluster --features restate --bench cluster")
}

fn install_peers(root: &Path) {
    let peers = target_dir().join("bench-peers");
    let script = |name, script: &str, dir: &str| {
        let dir = peers.join(dir).display().to_string();
        Step::new(name, "sh", "-ec").args([script.to_owned(), "sh".to_owned(), dir])
    };
    let rust = "build --release --locked --keep-going --manifest-path benches/peers/rust/Cargo.toml --target-dir";
    for peer in [
        script("LangGraph", INSTALL_LANGGRAPH, "langgraph"),
        script("LangGraph.js", INSTALL_LANGGRAPH_JS, "langgraph-js"),
        Step::cargo("Rust peers", rust).args([peers.join("rust").display().to_string()]),
    ] {
        if let Err(error) = peer.run(root) {
            eprintln!("warning: {error}\nthe results will not contain this peer");
        }
    }
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
