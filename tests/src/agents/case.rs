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
    #[serde(default)]
    pub handle_errors: Option<Value>,
    #[serde(default)]
    pub wrap: Option<Vec<Value>>,
    #[serde(default)]
    pub state: Map<String, Value>,
    #[serde(default)]
    pub nodes: Map<String, Value>,
    #[serde(default)]
    pub input_as: Option<String>,
    #[serde(default)]
    pub models: Map<String, Value>,
    #[serde(default)]
    pub agent: AgentSpec,
    #[serde(default)]
    pub agents: Vec<AgentSpec>,
    #[serde(default)]
    pub supervisor: SupervisorSpec,
    #[serde(default)]
    pub default: Option<String>,
    #[serde(default)]
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
    #[serde(default)]
    pub system_prompt: Option<String>,
    #[serde(default, deserialize_with = "ordered_updates")]
    pub middleware: Vec<Value>,
    #[serde(default)]
    pub response_format: Option<ResponseSpec>,
    #[serde(default)]
    pub state: Map<String, Value>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub interrupt_before: Vec<String>,
    #[serde(default)]
    pub interrupt_after: Vec<String>,
    #[serde(default)]
    pub model: Option<String>,
}

/// The options of a supervisor.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct SupervisorSpec {
    #[serde(default)]
    pub output_mode: Option<String>,
    #[serde(default)]
    pub add_handoff_messages: Option<bool>,
    #[serde(default)]
    pub add_handoff_back_messages: Option<bool>,
    #[serde(default)]
    pub handoff_tool_prefix: Option<String>,
    #[serde(default)]
    pub prompt: Option<String>,
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
    #[serde(default)]
    pub include_agent_name: Option<String>,
    #[serde(default)]
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
    #[serde(default)]
    pub handle_error: Option<Value>,
    #[serde(default)]
    pub response_format: Option<String>,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub provider: Option<String>,
    #[serde(default)]
    pub handoff: Option<String>,
    #[serde(default)]
    pub forward: Option<String>,
}

/// Description of a response format.
#[derive(Clone, Debug, Deserialize)]
pub struct ResponseSpec {
    #[serde(default)]
    pub strategy: Option<String>,
    pub schemas: Vec<SchemaSpec>,
    #[serde(default)]
    pub handle_errors: Option<Value>,
    #[serde(default)]
    pub tool_message_content: Option<String>,
    #[serde(default)]
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
