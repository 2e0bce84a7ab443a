//! One model call with its wrappers.

use std::{collections::BTreeSet, sync::Arc};

use graph_core::NodeError;

use super::structured;
use crate::{
    AgentError,
    command::Command,
    id::new_id,
    lock::lock,
    middleware::{Middleware, model_wrapper},
    model::{
        ModelAnswer, ModelHandler, ModelRequest, ModelTool, Prompt, RequestTool, ToolChoice,
        call_streaming,
    },
    notation,
    response::Strategy,
};

/// The model call itself, inside all wrappers of the middleware.
#[derive(Clone, Debug)]
pub(super) struct ModelCall {
    /// Name of the agent. The messages of its model have the same name.
    pub(super) name: Option<String>,
    /// Names of the tools that the agent can execute.
    pub(super) registered: BTreeSet<String>,
    /// Whether a request is rejected if it contains a tool that is not in `registered`. Provider tools are exempt.
    pub(super) checks_tools: bool,
    /// Whether malformed tool calls without an id get one, so that they can be answered.
    pub(super) identifies_malformed_calls: bool,
}

impl ModelCall {
    /// Creates the handler of model calls: this call inside the wrappers of the middleware.
    pub(super) fn into_handler(self, middleware: &[Arc<dyn Middleware>]) -> ModelHandler {
        let (call, wrap_model) = (Arc::new(self), model_wrapper(middleware));
        let innermost = ModelHandler::new(move |mut request| {
            let call = call.clone();
            if let Some(wrap) = &wrap_model {
                request.model = wrap(request.model);
            }
            Box::pin(async move { call.execute(request).await })
        });
        let wrapping = middleware.iter().filter(|it| it.hooks().wraps_model);
        wrapping.rev().fold(innermost, |inner, it| wrap(inner, it.clone()))
    }

    async fn execute(&self, request: ModelRequest) -> Result<ModelAnswer, NodeError> {
        self.check_tools(&request)?;
        let native = request.model.profile().structured_output;
        let prompt = to_prompt(&request, native);
        let mut message = call_streaming(&request.model, &prompt, &request.context).await?;
        if self.name.is_some() {
            message.name.clone_from(&self.name);
        }
        if self.identifies_malformed_calls {
            for call in &mut message.invalid_tool_calls {
                call.id.get_or_insert_with(new_id);
            }
        }
        lock(&request.streamed).extend(message.id.clone());
        Ok(structured::to_answer(message, request.response_format.as_ref(), native)?)
    }

    fn check_tools(&self, request: &ModelRequest) -> Result<(), AgentError> {
        let is_unknown = |it: &&RequestTool| {
            matches!(it, RequestTool::Client(_)) && !self.registered.contains(it.name())
        };
        let unknown: Vec<_> =
            request.tools.iter().filter(is_unknown).map(RequestTool::name).collect();
        if unknown.is_empty() || !self.checks_tools {
            return Ok(());
        }
        Err(AgentError::value(format!(
            "Middleware added tools that the agent doesn't know how to execute.\n\nUnknown tools: {}\nRegistered \
             tools: {}\n\nRegister the tools with `Agent::tools`, or execute them in `Middleware::wrap_tool_call`.",
            notation::python_list(unknown),
            notation::python_list(&self.registered)
        )))
    }
}

fn to_prompt(request: &ModelRequest, native: bool) -> Prompt {
    let mut tools: Vec<_> = request.tools.iter().map(to_model_tool).collect();
    let mut tool_choice = request.tool_choice.clone();
    let mut output = None;
    if let Some(format) = &request.response_format {
        match format.resolve(native) {
            Strategy::Provider => output = format.output_schema(),
            Strategy::Tool | Strategy::Auto => {
                tools.extend(format.schemas.iter().map(|it| ModelTool::Function {
                    name: it.name.clone(),
                    description: it.description.clone(),
                    parameters: Arc::new(it.schema.clone()),
                    strict: false,
                }));
                tool_choice = Some(ToolChoice::Any);
            }
        }
    }
    let tool_choice = tool_choice.filter(|_| !tools.is_empty());
    Prompt {
        system: request.system.clone(),
        messages: request.messages.clone(),
        tools,
        tool_choice,
        output,
        settings: request.settings.clone(),
    }
}

fn to_model_tool(tool: &RequestTool) -> ModelTool {
    match tool {
        RequestTool::Client(tool) => ModelTool::Function {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            parameters: tool.shared_schema(),
            strict: tool.is_strict(),
        },
        RequestTool::Provider(tool) => ModelTool::Provider(tool.clone()),
    }
}

fn wrap(inner: ModelHandler, middleware: Arc<dyn Middleware>) -> ModelHandler {
    ModelHandler::new(move |request| {
        let (inner, middleware) = (inner.fresh(), middleware.clone());
        Box::pin(async move {
            let mut answer = middleware.wrap_model_call(request, inner.clone()).await?;
            answer.commands.iter().try_for_each(check_command)?;
            let mut commands = inner.take_commands();
            commands.append(&mut answer.commands);
            Ok(ModelAnswer { commands, ..answer })
        })
    })
}

/// Checks that a command returned by a wrapper of the model call only updates the state.
fn check_command(command: &Command) -> Result<(), AgentError> {
    let refused = |problem: &str| Err(AgentError::named("NotImplementedError", problem));
    if !command.goto.is_empty() {
        return refused(
            "Command goto is not yet supported in wrap_model_call middleware. Use the jump_to state field with \
             before_model/after_model hooks instead.",
        );
    }
    if command.parent {
        return refused("Command graph is not yet supported in wrap_model_call middleware.");
    }
    Ok(())
}
