//! Builds and checks the web pages of `consulting serve`, `graph-server` and `agent-sandbox serve`.

use std::path::Path;

use crate::{
    error::Error,
    plan::{Plan, Skipped},
    step::{Step, succeeds},
};

/// Reported as skipped if the page cannot be built on this machine.
pub(crate) const SKIPPED: Skipped =
    Skipped::new("web page checks and browser tests", "install Node 20.19 or later with npm");

/// Environment variable that makes the page tests fail instead of being skipped if the page cannot be tested.
pub(crate) const REQUIRE: &str = "GRAPH_REQUIRE_PAGE";

/// Builds the pages into `web/dist`, `graph-server/studio` and `reflexion-graph/page`.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    let [fetch, .., build, _] = steps();
    Plan::sequence([fetch, build]).run(root)
}

/// Returns the CI steps for the pages. The last step checks that the committed builds match their source.
pub(crate) fn steps() -> [Step; 5] {
    let npm = |title, line| Step::new(title, "npm", &format!("--prefix web {line}"));
    let same = "test -z \"$(git status --porcelain -- web/dist graph-server/studio reflexion-graph/page)\" || \
                { echo 'web/dist, graph-server/studio or reflexion-graph/page does not match its source; run \
                `cargo xtask web` and commit the result'; exit 1; }";
    [
        npm("web page: dependencies", "ci --no-audit --no-fund"),
        npm("web page: types and lints", "run check"),
        npm("web page: unit tests", "test"),
        npm("web page: build", "run build"),
        Step::new("web page: committed build is current", "sh", "-ec").args([same.to_owned()]),
    ]
}

/// Returns whether a sufficiently recent Node with npm is installed.
pub(crate) fn is_possible() -> bool {
    let script = "const [a, b] = process.versions.node.split('.').map(Number); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)";
    succeeds("node", &["-e", script]) && succeeds("npm", &["--version"])
}
