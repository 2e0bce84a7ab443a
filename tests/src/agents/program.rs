//! Programs, which are the lists of operations that scripted tools, hooks and nodes execute.

use std::collections::BTreeMap;

use graph_agents::{
    AgentError, AgentState, Command, Message, ToolOutput, Update, message_from_json,
};
use graph_core::{Context, Goto, NodeError};
use serde_json::{Map, Value, json};

use super::shared_data::SharedData;
use crate::expr::{add, equal, is_true, length, order};

/// Values that a program can read.
pub(super) struct Env<'a> {
    pub(super) shared: &'a SharedData,
    pub(super) args: Map<String, Value>,
    pub(super) state: Option<&'a AgentState>,
    pub(super) call_id: String,
    pub(super) vars: BTreeMap<String, Value>,
    pub(super) context: Option<&'a Context>,
    /// Name under which failures are counted.
    pub(super) name: String,
}

/// The result of a program.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) returned: Option<ToolOutput>,
    pub(super) update: Option<Update>,
}

impl<'a> Env<'a> {
    pub(super) fn new(shared: &'a SharedData, name: &str) -> Self {
        Self {
            shared,
            args: Map::new(),
            state: None,
            call_id: String::new(),
            vars: BTreeMap::new(),
            context: None,
            name: name.to_owned(),
        }
    }

    pub(super) fn evaluate(&self, expr: &Value) -> Value {
        let object = match expr {
            Value::Array(items) => return items.iter().map(|it| self.evaluate(it)).collect(),
            Value::Object(object) if object.len() == 1 => object,
            other => return other.clone(),
        };
        let (operation, operand) = object.iter().next().expect("the object has one entry");
        let field = || operand.as_str().unwrap_or_default();
        let pair = || (self.evaluate(&operand[0]), self.evaluate(&operand[1]));
        match operation.as_str() {
            "lit" => operand.clone(),
            "arg" => self.args.get(field()).cloned().unwrap_or_default(),
            "state" => self.state.and_then(|it| it.get(field())).cloned().unwrap_or_default(),
            "call_id" => json!(self.call_id),
            "var" => self.vars.get(field()).cloned().unwrap_or_default(),
            "obj" => self.object(operand),
            "len" => json!(length(&self.evaluate(operand))),
            "messages_len" => json!(self.state.map_or(0, |it| it.messages().len())),
            "add" => {
                let (a, b) = pair();
                add(a, b)
            }
            "eq" => {
                let (a, b) = pair();
                json!(equal(&a, &b))
            }
            "lt" => {
                let (a, b) = pair();
                json!(order(&a, &b) == Some(std::cmp::Ordering::Less))
            }
            "not" => {
                let operand = operand.as_array().and_then(|it| it.first()).unwrap_or(operand);
                json!(!is_true(&self.evaluate(operand)))
            }
            _ => expr.clone(),
        }
    }

    fn object(&self, entries: &Value) -> Value {
        let entries = entries.as_object().into_iter().flatten();
        entries.map(|(key, value)| (key.clone(), self.evaluate(value))).collect()
    }

    /// Evaluates a message whose values may be expressions.
    pub(super) fn message(&self, message: &Value) -> Message {
        let message = match message.as_object() {
            Some(object) if object.contains_key("type") => self.object(message),
            _ => message.clone(),
        };
        message_from_json(&message).expect("the message of a program is valid")
    }

    /// Adds the writes of a program to an update. The writes are an object, or a list of pairs that keeps their order.
    fn add_writes(&self, mut update: Update, fields: &Value) -> Update {
        let in_order = fields.as_array().into_iter().flatten();
        let in_order = in_order.filter_map(|pair| Some((pair[0].as_str()?, &pair[1])));
        let unordered = fields.as_object().into_iter().flatten();
        let unordered = unordered.map(|(field, value)| (field.as_str(), value));
        for (field, value) in in_order.chain(unordered) {
            update = if field == "messages" {
                let messages = value.as_array().into_iter().flatten();
                update.messages(messages.map(|it| self.message(it)))
            } else {
                update.set(field, self.evaluate(value))
            };
        }
        update
    }

    pub(super) fn command(&self, spec: &Value) -> Command {
        let mut command = Command::new();
        if let Some(fields) = spec.get("update").filter(|it| !it.is_null()) {
            command = command.update(self.add_writes(Update::new(), fields));
        }
        let gotos = match &spec["goto"] {
            Value::Array(names) => names.clone(),
            Value::Null => Vec::new(),
            name => vec![name.clone()],
        };
        for name in gotos.iter().filter_map(Value::as_str) {
            command = command.goto(Goto::node(name.to_owned()));
        }
        if spec["parent"] == true { command.to_parent() } else { command }
    }

    fn command_or_message(&self, spec: &Value) -> ToolOutput {
        match spec.get("message") {
            None => ToolOutput::Command(self.command(spec)),
            Some(message) => match self.message(message) {
                Message::Tool(message) => ToolOutput::Message(message),
                other => panic!("the message of a tool must be a tool message, but is {other:?}"),
            },
        }
    }

    /// Runs a program.
    pub(super) async fn run(&mut self, operations: &[Value]) -> Result<Outcome, NodeError> {
        let mut outcome = Outcome::default();
        Box::pin(self.run_into(operations, &mut outcome)).await?;
        Ok(outcome)
    }

    async fn run_into(
        &mut self,
        operations: &[Value],
        outcome: &mut Outcome,
    ) -> Result<(), NodeError> {
        for operation in operations {
            if outcome.returned.is_some() {
                break;
            }
            self.step(operation, outcome).await?;
        }
        Ok(())
    }

    async fn step(&mut self, operation: &Value, outcome: &mut Outcome) -> Result<(), NodeError> {
        let has = |key: &str| operation.get(key).is_some();
        if has("return") {
            outcome.returned = Some(ToolOutput::Value(self.evaluate(&operation["return"])));
        } else if has("fail") {
            let n_failures = self.shared.count_failure(&self.name);
            if operation["times"].as_u64().is_none_or(|times| n_failures <= times) {
                let class = operation["class"].as_str().unwrap_or("ValueError").to_owned();
                let message = operation["fail"].as_str().unwrap_or_default();
                return Err(AgentError::named(class, message).into());
            }
        } else if has("command") {
            outcome.returned = Some(ToolOutput::Command(self.command(&operation["command"])));
        } else if has("commands") {
            let parts = operation["commands"].as_array().into_iter().flatten();
            let parts = parts.map(|it| self.command_or_message(it)).collect();
            outcome.returned = Some(ToolOutput::Many(parts));
        } else if has("interrupt") {
            let context = self.context.expect("a program that interrupts has a context");
            let answer: Value = context.interrupt(self.evaluate(&operation["interrupt"]))?;
            let name = operation["as"].as_str().unwrap_or_default().to_owned();
            self.vars.insert(name, answer);
        } else if has("sleep_ms") {
            let millis = operation["sleep_ms"].as_u64().unwrap_or(0);
            tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
        } else if has("emit") {
            let context = self.context.expect("a program that emits has a context");
            context.emit(self.evaluate(&operation["emit"])).await;
        } else if has("if") {
            let branch = if is_true(&self.evaluate(&operation["if"])) { "then" } else { "else" };
            let operations = operation[branch].as_array().cloned().unwrap_or_default();
            Box::pin(self.run_into(&operations, outcome)).await?;
        } else if has("update") {
            let update = outcome.update.take().unwrap_or_default();
            outcome.update = Some(self.add_writes(update, &operation["update"]));
        } else if has("jump") {
            let update = outcome.update.take().unwrap_or_default();
            outcome.update = Some(update.set("jump_to", &operation["jump"]));
        } else {
            panic!("unknown operation {operation}");
        }
        Ok(())
    }
}
