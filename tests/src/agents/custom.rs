//! Middleware whose hooks run the programs of a case.

use std::sync::Arc;

use async_trait::async_trait;
use graph_agents::{
    AgentError, AgentState, AiMessage, Content, JumpTo, Message, StateField, Tool, ToolMessage,
    Update,
    middleware::{Hooks, Middleware},
    model::{ModelAnswer, ModelHandler, ModelRequest, RequestTool, ToolChoice},
    tool::{ToolAnswer, ToolHandler, ToolRequest},
};
use graph_core::{Context, NodeError};
use serde_json::Value;

use super::{
    error::is_a,
    model::ai_message,
    program::Env,
    shared_data::SharedData,
    spec::{state_fields, tool_spec},
    tool::tool,
};

/// Middleware whose hooks run the programs of a case.
#[derive(Debug)]
pub(super) struct Custom {
    name: String,
    hooks: Value,
    fields: Vec<StateField>,
    tools: Vec<Tool>,
    shared: Arc<SharedData>,
}

impl Custom {
    pub(super) fn new(spec: &Value, shared: &Arc<SharedData>) -> Self {
        let tools = spec["tools"].as_array().into_iter().flatten();
        Self {
            name: spec["name"].as_str().unwrap_or_default().to_owned(),
            hooks: spec["hooks"].clone(),
            fields: spec["state"].as_object().map(state_fields).unwrap_or_default(),
            tools: tools.map(|it| tool(&tool_spec(it), shared)).collect(),
            shared: shared.clone(),
        }
    }

    fn program(&self, hook: &str) -> Vec<Value> {
        let spec = &self.hooks[hook];
        let program = if spec.is_array() { spec } else { &spec["do"] };
        program.as_array().cloned().unwrap_or_default()
    }

    async fn run_hook(
        &self,
        hook: &str,
        state: &AgentState,
        context: &Context,
    ) -> Result<Option<Update>, NodeError> {
        self.shared.trace(format!("{}.{hook}", self.name));
        let mut env = Env::new(&self.shared, &format!("{}.{hook}", self.name));
        env.state = Some(state);
        env.context = Some(context);
        Ok(env.run(&self.program(hook)).await?.update)
    }
}

fn jumps(spec: &Value) -> Vec<JumpTo> {
    spec["can_jump_to"].as_array().into_iter().flatten().filter_map(JumpTo::from_value).collect()
}

#[async_trait]
impl Middleware for Custom {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn hooks(&self) -> Hooks {
        let mut hooks = Hooks::new();
        for (hook, spec) in self.hooks.as_object().into_iter().flatten() {
            hooks = match hook.as_str() {
                "before_agent" => hooks.before_agent(jumps(spec)),
                "before_model" => hooks.before_model(jumps(spec)),
                "after_model" => hooks.after_model(jumps(spec)),
                "after_agent" => hooks.after_agent(jumps(spec)),
                "wrap_model_call" => hooks.wrap_model_call(),
                "wrap_tool_call" => hooks.wrap_tool_call(),
                other => panic!("unknown hook {other}"),
            };
        }
        hooks
    }

    fn state_fields(&self) -> Vec<StateField> {
        self.fields.clone()
    }

    fn tools(&self) -> Vec<Tool> {
        self.tools.clone()
    }

    async fn before_agent(
        &self,
        state: &AgentState,
        cx: &Context,
    ) -> Result<Option<Update>, NodeError> {
        self.run_hook("before_agent", state, cx).await
    }

    async fn before_model(
        &self,
        state: &AgentState,
        cx: &Context,
    ) -> Result<Option<Update>, NodeError> {
        self.run_hook("before_model", state, cx).await
    }

    async fn after_model(
        &self,
        state: &AgentState,
        cx: &Context,
    ) -> Result<Option<Update>, NodeError> {
        self.run_hook("after_model", state, cx).await
    }

    async fn after_agent(
        &self,
        state: &AgentState,
        cx: &Context,
    ) -> Result<Option<Update>, NodeError> {
        self.run_hook("after_agent", state, cx).await
    }

    async fn wrap_model_call(
        &self,
        request: ModelRequest,
        next: ModelHandler,
    ) -> Result<ModelAnswer, NodeError> {
        self.shared.trace(format!("{}.wrap_model_call>", self.name));
        let mut call = WrappedModelCall { custom: self, request, next, answer: None };
        for operation in self.program("wrap_model_call") {
            call.step(&operation).await?;
        }
        self.shared.trace(format!("{}.wrap_model_call<", self.name));
        match call.answer {
            Some(answer) => Ok(answer),
            None => call.next.call(call.request).await,
        }
    }

    async fn wrap_tool_call(
        &self,
        request: ToolRequest,
        next: ToolHandler,
    ) -> Result<ToolAnswer, NodeError> {
        let program = self.program("wrap_tool_call");
        wrap_tool_call(&self.name, &program, &self.shared, request, next).await
    }
}

/// The request that a `wrap_model_call` program changes, and the answer once the program has called the model.
struct WrappedModelCall<'a> {
    custom: &'a Custom,
    request: ModelRequest,
    next: ModelHandler,
    answer: Option<ModelAnswer>,
}

impl WrappedModelCall<'_> {
    async fn step(&mut self, operation: &Value) -> Result<(), NodeError> {
        let (name, operand) = single_entry(operation);
        let text = || operand.as_str().unwrap_or_default();
        match name {
            "system" => self.request.system = Some(text().into()),
            "system_append" => {
                let system =
                    self.request.system.take().as_ref().map(Content::text).unwrap_or_default();
                self.request.system = Some(format!("{system}{}", text()).into());
            }
            "only_tools" => self.request.tools.retain(|it| {
                operand.as_array().is_some_and(|names| names.iter().any(|name| name == it.name()))
            }),
            "add_tool" => {
                let tool = tool(&tool_spec(operand), &self.custom.shared);
                self.request.tools.push(RequestTool::Client(tool));
            }
            "keep_last" => {
                let keep = operand.as_u64().unwrap_or(0) as usize;
                let drop = self.request.messages.len().saturating_sub(keep);
                self.request.messages.drain(..drop);
            }
            "add_message" => {
                let env = Env::new(&self.custom.shared, &self.custom.name);
                self.request.messages.push(env.message(operand));
            }
            "model" => self.request.model = self.custom.shared.model(text()),
            "settings" => self.request.settings = operand.as_object().cloned().unwrap_or_default(),
            "tool_choice" => {
                self.request.tool_choice = Some(match text() {
                    "any" => ToolChoice::Any,
                    "none" => ToolChoice::None,
                    name => ToolChoice::Tool(name.to_owned()),
                });
            }
            "call" => {
                for _ in 0..operand.as_u64().unwrap_or(1) {
                    self.answer = Some(self.next.call(self.request.clone()).await?);
                }
            }
            "retry" => {
                let attempts = operand.as_u64().unwrap_or(1);
                for attempt in 1..=attempts {
                    match self.next.call(self.request.clone()).await {
                        Ok(answer) => {
                            self.answer = Some(answer);
                            break;
                        }
                        Err(error) if attempt < attempts && is_value_error(&error) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            "catch" => {
                self.answer = Some(match self.next.call(self.request.clone()).await {
                    Err(error) if is_value_error(&error) => {
                        AiMessage::new(format!("{}{error}", text())).into()
                    }
                    other => other?,
                });
            }
            "reply" => self.answer = Some(ai_message(operand).into()),
            "suffix" => {
                for message in self.answer.iter_mut().flat_map(|it| &mut it.messages) {
                    if let Message::Ai(message) = message {
                        message.content = format!("{}{}", message.content.text(), text()).into();
                    }
                }
            }
            "command" => {
                let mut env = Env::new(&self.custom.shared, &self.custom.name);
                env.state = Some(&self.request.state);
                let command = env.command(operand);
                let answer = self.answer.take().unwrap_or_default();
                self.answer = Some(answer.command(command));
            }
            other => panic!("unknown operation {other}"),
        }
        Ok(())
    }
}

fn single_entry(operation: &Value) -> (&str, &Value) {
    let entry = operation.as_object().and_then(|it| it.iter().next());
    let (name, operand) = entry.expect("an operation has an entry");
    (name, operand)
}

fn is_value_error(error: &NodeError) -> bool {
    error.source().is_some() && is_a(graph_agents::error_name(error), "ValueError")
}

/// Runs a `wrap_tool_call` program.
pub(super) async fn wrap_tool_call(
    name: &str,
    program: &[Value],
    shared: &Arc<SharedData>,
    mut request: ToolRequest,
    next: ToolHandler,
) -> Result<ToolAnswer, NodeError> {
    let only = program.iter().find_map(|it| it.get("only")?.as_array());
    let mark = if request.tool.is_some() { "" } else { "?" };
    shared.trace(format!("{name}.wrap_tool_call>{}{mark}", request.call.name));
    if only.is_some_and(|names| !names.iter().any(|it| *it == request.call.name)) {
        return next.call(request).await;
    }
    let mut answer = None;
    for operation in program {
        let (operator, operand) = single_entry(operation);
        let text = || operand.as_str().unwrap_or_default();
        match operator {
            "only" => {}
            "set_args" => {
                let mut env = Env::new(shared, name);
                env.args = request.call.args.clone();
                let args = operand.as_object().into_iter().flatten();
                let args = args.map(|(arg, value)| (arg.clone(), env.evaluate(value)));
                request.call.args = args.collect();
            }
            "use_tool" => request.tool = Some(tool(&tool_spec(operand), shared)),
            "call" => {
                for _ in 0..operand.as_u64().unwrap_or(1) {
                    answer = Some(next.call(request.clone()).await?);
                }
            }
            "retry" => {
                let attempts = operand.as_u64().unwrap_or(1);
                for attempt in 1..=attempts {
                    match next.call(request.clone()).await {
                        Ok(got) => {
                            answer = Some(got);
                            break;
                        }
                        Err(error) if attempt < attempts && is_value_error(&error) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            "catch" => {
                answer = Some(match next.call(request.clone()).await {
                    Err(error) if is_value_error(&error) => {
                        ToolMessage::error(&request.call, format!("{}{error}", text())).into()
                    }
                    other => other?,
                });
            }
            "reply" => {
                let content = operand.as_str().map_or_else(|| operand.to_string(), str::to_owned);
                answer = Some(ToolMessage::success(&request.call, content).into());
            }
            "suffix" => {
                if let Some(ToolAnswer::Message(message)) = &mut answer {
                    message.content = format!("{}{}", message.content.text(), text()).into();
                }
            }
            "command" => {
                let mut env = Env::new(shared, name);
                env.state = Some(&request.state);
                env.args = request.call.args.clone();
                env.call_id = request.call.id().to_owned();
                answer = Some(env.command(operand).into());
            }
            "fail" => {
                let class = operation["class"].as_str().unwrap_or("ValueError").to_owned();
                return Err(AgentError::named(class, text()).into());
            }
            other => panic!("unknown operation {other}"),
        }
    }
    match answer {
        Some(answer) => Ok(answer),
        None => next.call(request).await,
    }
}
