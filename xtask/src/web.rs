//! Builds and checks the web pages of `consulting serve`, `graph-server` and `agent-sandbox serve`.

use std::path::Path;

use crate::{
    error::Error,
    plan::{Plan, Skipped},
    step::{Step, succeeds, target_dir},
};

/// Entry of the summary if the page cannot be built on this machine.
pub(crate) const SKIPPED: Skipped =
    Skipped::new("web page checks and browser tests", "install Node 20.19 or later with npm");

/// Environment variable that makes the page tests fail instead of being skipped if the page cannot be tested.
pub(crate) const REQUIRE: &str = "GRAPH_REQUIRE_PAGE";

/// Script that builds the pages into the directory `$1` and compares them with the committed builds. It does not write
/// to the committed builds, because Rust programs that embed them may be compiled at the same time.
const COMPARE: &str = "\
rm -rf \"$1\"
cd web
same() {
    npx --no-install vite build --logLevel warn --config \"$2\" --outDir \"$1/$3\" --emptyOutDir
    diff -r \"$1/$3\" \"../$3\" || {
        echo \"$3 does not match its source; run \\`cargo xtask web\\` and commit the result\"
        exit 1
    }
}
same \"$1\" vite.config.ts web/dist
same \"$1\" vite.studio.config.ts graph-server/studio
same \"$1\" vite.sandbox.config.ts reflexion-graph/page";

/// Builds the pages into `web/dist`, `graph-server/studio` and `reflexion-graph/page`.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    Plan::sequence([dependencies(), npm("web page: build", "run build")]).run(root)
}

/// Returns the CI steps for the pages. The last step checks that the committed builds match their source.
pub(crate) fn steps() -> [Step; 4] {
    let built = target_dir().join("web").display().to_string();
    let compare = Step::new("web page: committed build is current", "sh", "-euc");
    [
        dependencies(),
        npm("web page: types and lints", "run check"),
        npm("web page: unit tests", "test"),
        compare.args([COMPARE.to_owned(), "compare".to_owned(), built]),
    ]
}

fn dependencies() -> Step {
    npm("web page: dependencies", "ci --no-audit --no-fund")
}

fn npm(title: &str, line: &str) -> Step {
    Step::new(title, "npm", &format!("--prefix web {line}"))
}

/// Returns whether a sufficiently recent Node with npm is installed.
pub(crate) fn is_possible() -> bool {
    let script = "const [a, b] = process.versions.node.split('.').map(Number); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)";
    succeeds("node", &["-e", script]) && succeeds("npm", &["--version"])
}
