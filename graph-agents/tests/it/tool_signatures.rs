//! Tests of all kinds of parameters and return types of `#[tool]`.

use graph_agents::{AgentError, AgentState, Command, Dep, ToolCall, ToolOutput, ToolRuntime, tool};
use graph_core::{Context, NodeError, store::Store};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Address {
    street: String,
    number: Option<u32>,
}

struct Database;

/// Takes every kind of parameter except the store.
#[tool(name = "all", return_direct, retries = 1, timeout_secs = 2, cache_secs = 3, max_output = 4)]
pub async fn every_parameter(
    /// Where to look.
    address: Address,
    #[serde(default)] limit: u8,
    runtime: &ToolRuntime,
    state: &AgentState,
    call: &ToolCall,
    context: &Context,
    database: Dep<Database>,
) -> Result<String, NodeError> {
    let _ = (runtime, state.messages(), call, context, &*database);
    Ok(format!("{} {:?} {limit}", address.street, address.number))
}

/// Takes the store.
#[tool]
async fn stored(store: &dyn Store) {
    let _ = store;
}

/// Returns nothing.
#[tool]
async fn nothing() {}

/// Returns a custom error type.
#[tool(answer_errors, untrusted)]
async fn failing() -> Result<Vec<u8>, AgentError> {
    Err(AgentError::tool("no"))
}

/// Returns an output.
#[tool]
async fn output() -> ToolOutput {
    ToolOutput::Value(1.into())
}

/// Returns a command.
#[tool]
async fn command(database: Dep<Database>) -> Command {
    let _ = &*database;
    Command::new()
}

#[test]
fn tools_are_named_after_their_functions_by_default() {
    let tools = [every_parameter(), stored(), nothing(), failing(), output(), command()];
    assert_eq!(
        tools.map(|it| it.name().to_owned()),
        ["all", "stored", "nothing", "failing", "output", "command"]
    );
}
