//! Execution of one tool call: arguments, tool, result.

use std::{collections::HashMap, sync::Arc};

use graph_core::NodeError;

use super::validate;
use crate::{
    AgentError, AgentState,
    command::Command,
    error::error_name,
    message::{Content, ToolCall, ToolMessage},
    notation,
    tool::{
        Tool, ToolAnswer, ToolErrors, ToolHandler, ToolOutput, ToolRequest, ToolRuntime,
        content_of, error_message, schema::Fault,
    },
};

/// Creates the innermost handler, which executes calls.
pub(super) fn handler(tools: Arc<[Tool]>, errors: ToolErrors) -> ToolHandler {
    ToolHandler::new(tools.clone(), move |request| {
        let (tools, errors) = (tools.clone(), errors.clone());
        Box::pin(async move { execute(request, &tools, &errors).await })
    })
}

async fn execute(
    request: ToolRequest,
    tools: &[Tool],
    errors: &ToolErrors,
) -> Result<ToolAnswer, NodeError> {
    let ToolRequest { call, tool, state, context, dependencies, input } = request;
    let Some(tool) = &tool else {
        return Ok(unknown_tool(&call, tools).into());
    };
    let call = Arc::new(call);
    let runtime = ToolRuntime::new(call.clone(), state.clone(), context, dependencies);
    // A missing field is a mistake of the application, so the model is never asked to fix it.
    let injected = tool.injected_args(&runtime)?;
    let result = async {
        let mut args = tool
            .check_args(&call.args)
            .map_err(|faults| NodeError::from(invalid_arguments(&call, &faults)))?;
        args.extend(injected);
        let output = match tool.run(args, runtime).await {
            Ok(output) => output,
            Err(error) => match tool.answer_exception(&error) {
                Some(text) => return Ok(error_message(Some(tool), &call, text).into()),
                None => return Err(error),
            },
        };
        let answer = to_answer(output, &call, tool, &state);
        Ok(validate::check_output(answer, &call, input)?)
    };
    match result.await {
        Ok(answer) => Ok(answer),
        Err(error) => answer_error(errors, Some(tool), &call, error),
    }
}

/// Answers an error with a message to the model, if the rules of the tool, or else those of the node, cover it.
pub(super) fn answer_error(
    errors: &ToolErrors,
    tool: Option<&Tool>,
    call: &ToolCall,
    error: NodeError,
) -> Result<ToolAnswer, NodeError> {
    let errors = tool.and_then(Tool::error_policy).unwrap_or(errors);
    let Some(text) = errors.text(&error) else { return Err(error) };
    Ok(match tool {
        // This program rejected the arguments, so the text is not output of the tool.
        Some(tool) if error_name(&error) == AgentError::TOOL_INVOCATION => {
            ToolMessage::error(call, tool.truncate(text.into())).into()
        }
        tool => error_message(tool, call, text).into(),
    })
}

fn unknown_tool(call: &ToolCall, tools: &[Tool]) -> ToolMessage {
    let names: Vec<_> = tools.iter().map(Tool::name).collect();
    let text =
        format!("Error: {} is not a valid tool, try one of [{}].", call.name, names.join(", "));
    ToolMessage::error(call, text)
}

fn invalid_arguments(call: &ToolCall, faults: &[Fault]) -> AgentError {
    let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    AgentError::named(
        AgentError::TOOL_INVOCATION,
        format!(
            "Error invoking tool '{}' with kwargs {} with error:\n {}\n Please fix the error and try again.",
            call.name,
            notation::python_object(&call.args),
            faults.join("\n")
        ),
    )
}

fn to_answer(output: ToolOutput, call: &ToolCall, tool: &Tool, state: &AgentState) -> ToolAnswer {
    let success = |value| ToolMessage::success(call, tool.limit(content_of(value)));
    match output {
        ToolOutput::Value(value) => success(value).into(),
        ToolOutput::WithArtifact { content, artifact } => {
            ToolMessage { artifact: Some(artifact), ..success(content) }.into()
        }
        ToolOutput::Message(message) => {
            ToolMessage { content: tool.limit(message.content), ..message }.into()
        }
        ToolOutput::Command(command) => limit_messages(command, tool, state).into(),
        ToolOutput::Many(outputs) => ToolAnswer::Many(
            outputs.into_iter().map(|it| to_answer(it, call, tool, state)).collect(),
        ),
    }
}

/// Limits the messages that a command adds or changes. Messages that are already in the state are not limited, because
/// a handoff passes on the whole conversation.
fn limit_messages(command: Command, tool: &Tool, state: &AgentState) -> Command {
    let mut messages = command.written_messages();
    if messages.is_empty() {
        return command;
    }
    let known = state.messages().iter().filter_map(|it| Some((it.id()?, it.content()?)));
    let known: HashMap<&str, &Content> = known.collect();
    let mut changed = false;
    for message in &mut messages {
        let stored = message.id().and_then(|it| known.get(it).copied());
        let Some(content) = message.content().filter(|it| stored != Some(*it)) else { continue };
        let limited = tool.limit(content.clone());
        if limited != *content {
            message.set_content(limited);
            changed = true;
        }
    }
    if changed { command.with_messages(messages) } else { command }
}
