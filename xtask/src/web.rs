//! The page of `consulting serve`: built from its source, and checked.

use std::{path::Path, process::Command};

use crate::{
    error::Error,
    step::{LeftOut, Plan, Step, run_all},
};

/// What is left out where the page cannot be built.
pub(crate) const LEFT_OUT: LeftOut = LeftOut::new(
    "the page: its checks, and its tests in a browser",
    "Node from 20.19 on, with npm",
);

/// The variable that lets the tests of the page fail in place of skipping.
pub(crate) const REQUIRE: &str = "GRAPH_REQUIRE_PAGE";

/// `cargo xtask web`: builds the page into `web/dist`.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    let [fetch, .., build, _] = steps();
    run_all(root, &Plan { steps: vec![fetch, build], left_out: vec![] })
}

/// What CI does with the page. What is committed of it must be what its source gives.
pub(crate) fn steps() -> [Step; 5] {
    let npm = |title, line| Step::new(title, "npm", &format!("--prefix web {line}"));
    let same = "test -z \"$(git status --porcelain -- web/dist)\" || \
                { echo 'web/dist is not what its source gives: run `cargo xtask web` and commit it'; exit 1; }";
    [
        npm("what the page is built with", "ci --no-audit --no-fund"),
        npm("types and lints of the page", "run check"),
        npm("tests of the page", "test"),
        npm("the page", "run build"),
        Step::new("the page is as committed", "sh", "-ec").args([same.to_owned()]),
    ]
}

/// Whether there is a Node that the page's tools run on.
pub(crate) fn is_possible() -> bool {
    let script = "const [a, b] = process.versions.node.split('.').map(Number); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)";
    let node = Command::new("node").args(["-e", script]).status();
    let npm = Command::new("npm").arg("--version").output();
    node.is_ok_and(|it| it.success()) && npm.is_ok_and(|it| it.status.success())
}
