//! Agent cases as stored in the case files; see `fixtures/agents/FORMAT.md`.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::ordered::ordered_updates;

/// A recorded case.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "documented in FORMAT.md")]
pub struct AgentCase {
    pub id: String,
    pub family: String,
    pub about: String,
    pub kind: Kind,
    #[serde(default)]
    pub expect: Vec<Value>,
    #[serde(default)]
    pub unordered: bool,
    #[serde(default = "empty_list")]
    pub left: Value,
    #[serde(default)]
    pub folds: Vec<Value>,
    #[serde(default)]
    pub states: Vec<Value>,
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
    #[serde(default)]
    pub script: Vec<Value>,
    pub handle_errors: Option<Value>,
    pub wrap: Option<Vec<Value>>,
    #[serde(default)]
    pub state: Map<String, Value>,
    #[serde(default)]
    pub nodes: Map<String, Value>,
    pub input_as: Option<String>,
    #[serde(default)]
    pub models: Map<String, Value>,
    #[serde(default)]
    pub agent: AgentSpec,
    #[serde(default)]
    pub agents: Vec<AgentSpec>,
    #[serde(default)]
    pub supervisor: SupervisorSpec,
    pub default: Option<String>,
    pub checkpointer: Option<bool>,
}

fn empty_list() -> Value {
    Value::Array(Vec::new())
}

/// The kind of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Reduce,
    ToolsCondition,
    ToolNode,
    Agent,
    Swarm,
    Supervisor,
}

/// Description of an agent.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct AgentSpec {
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
    pub system_prompt: Option<String>,
    #[serde(default, deserialize_with = "ordered_updates")]
    pub middleware: Vec<Value>,
    pub response_format: Option<ResponseSpec>,
    #[serde(default)]
    pub state: Map<String, Value>,
    pub name: Option<String>,
    #[serde(default)]
    pub interrupt_before: Vec<String>,
    #[serde(default)]
    pub interrupt_after: Vec<String>,
    pub model: Option<String>,
}

/// The options of a supervisor.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct SupervisorSpec {
    pub output_mode: Option<String>,
    pub add_handoff_messages: Option<bool>,
    pub add_handoff_back_messages: Option<bool>,
    pub handoff_tool_prefix: Option<String>,
    pub prompt: Option<String>,
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
    pub include_agent_name: Option<String>,
    pub supervisor_name: Option<String>,
}

/// Description of a tool.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ToolSpec {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub args: IndexMap<String, Value>,
    #[serde(default, deserialize_with = "ordered_updates")]
    pub r#do: Vec<Value>,
    #[serde(default)]
    pub return_direct: bool,
    #[serde(default)]
    pub inject: Map<String, Value>,
    pub handle_error: Option<Value>,
    pub response_format: Option<String>,
    pub description: Option<String>,
    pub provider: Option<String>,
    pub handoff: Option<String>,
    pub forward: Option<String>,
}

/// Description of a response format.
#[derive(Clone, Debug, Deserialize)]
pub struct ResponseSpec {
    pub strategy: Option<String>,
    pub schemas: Vec<SchemaSpec>,
    pub handle_errors: Option<Value>,
    pub tool_message_content: Option<String>,
    pub strict: Option<bool>,
}

/// Description of the schema of a response.
#[derive(Clone, Debug, Deserialize)]
pub struct SchemaSpec {
    pub name: String,
    #[serde(default)]
    pub fields: IndexMap<String, Value>,
    #[serde(default)]
    pub r#as: Option<String>,
}
