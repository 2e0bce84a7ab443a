//! The conformance suite of the Model Context Protocol, run against the endpoint `/mcp`.

use std::{path::Path, process::Command};

use graph_core::{END, JsonFieldKind, JsonStateSchema, NodeError, START, json_node};
use graph_server::langgraph::{Graphs, Schemas};
use serde_json::{Value, json};
use test_support::peers;
use tokio::task::spawn_blocking;

use crate::server::Server;

/// Adds the tools that the scenarios about text, errors and schemas call.
fn add_tools(graphs: Graphs) -> Graphs {
    let state = || JsonStateSchema::new([("text", JsonFieldKind::Last)]).unwrap().graph();
    let text = json_node("write", |_, _| async move { Ok(json!({ "text": "a simple text" })) });
    let simple = state().node(text).edge(START, "write").edge("write", END);
    let fail = json_node("fail", |_, _| async move {
        Err::<Value, _>(NodeError::terminal("this tool always fails"))
    });
    let error = state().node(fail).edge(START, "fail").edge("fail", END);
    let same = json_node("same", |_, _| async move { Ok(json!({})) });
    let with_schema = state().node(same).edge(START, "same").edge("same", END);
    let mut schemas = Schemas::default();
    schemas.input = Some(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": { "type": "object", "properties": { "city": { "type": "string" } } } },
        "properties": { "text": { "type": "string" }, "address": { "$ref": "#/$defs/address" } },
        "additionalProperties": false,
    }));
    let graphs = graphs.add("test_simple_text", simple, Schemas::default()).unwrap();
    let graphs = graphs.add("test_error_handling", error, Schemas::default()).unwrap();
    graphs.add("json_schema_2020_12_tool", with_schema, schemas).unwrap()
}

#[tokio::test]
async fn the_conformance_suite_of_mcp_finds_only_expected_failures() {
    // See `xtask/src/peers.rs`.
    let suite = peers::find("mcp-conformance-0.1.16", "GRAPH_REQUIRE_MCP_CONFORMANCE");
    let Some(suite) = suite else { return };
    let server = Server::start_with_graphs(add_tools).await;
    let url = format!("{}/mcp", server.url());
    let output = spawn_blocking(move || {
        let expected =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/mcp_conformance.yml");
        let program = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
        let mut node = Command::new(suite.join("node"));
        node.arg(suite.join(program)).args(["server", "--suite", "all", "--url", &url]);
        node.arg("--expected-failures").arg(expected).env("NO_PROXY", "127.0.0.1").output().unwrap()
    });
    let output = output.await.unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    // Guards against a run without scenarios.
    assert!(stdout.contains("tools-call-simple-text: 1 passed, 0 failed"), "{stdout}");
}
