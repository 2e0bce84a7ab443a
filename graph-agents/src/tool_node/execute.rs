//! Execution of one tool call: arguments, tool, result.

use std::sync::Arc;

use graph_core::NodeError;

use super::validate;
use crate::{
    AgentError,
    message::{ToolCall, ToolMessage},
    notation,
    tool::{
        Tool, ToolAnswer, ToolErrors, ToolHandler, ToolOutput, ToolRequest, content_of,
        schema::Fault,
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
    let Some(tool) = &request.tool else {
        return Ok(unknown_tool(&request.call, tools).into());
    };
    // A missing field is a mistake of the application, so the model is never asked to fix it.
    let injected = tool.injected_args(&request.runtime())?;
    let call = request.call.clone();
    let result = async {
        let mut args = tool
            .check_args(&call.args)
            .map_err(|faults| NodeError::from(invalid_arguments(&call, &faults)))?;
        args.extend(injected);
        let output = match tool.run(args, request.runtime()).await {
            Ok(output) => output,
            Err(error) => match tool.answer_exception(&error) {
                Some(text) => return Ok(ToolMessage::error(&call, text).into()),
                None => return Err(error),
            },
        };
        Ok(validate::check_output(to_answer(output, &call, tool), &call, request.input)?)
    };
    match result.await {
        Ok(answer) => Ok(answer),
        Err(error) => tool.error_policy().unwrap_or(errors).answer(&call, error).map(Into::into),
    }
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

fn to_answer(output: ToolOutput, call: &ToolCall, tool: &Tool) -> ToolAnswer {
    let success = |value| ToolMessage::success(call, tool.limit(content_of(value)));
    match output {
        ToolOutput::Value(value) => success(value).into(),
        ToolOutput::WithArtifact { content, artifact } => {
            ToolMessage { artifact: Some(artifact), ..success(content) }.into()
        }
        ToolOutput::Message(message) => {
            ToolMessage { content: tool.limit(message.content), ..message }.into()
        }
        ToolOutput::Command(command) => command.into(),
        ToolOutput::Many(outputs) => {
            ToolAnswer::Many(outputs.into_iter().map(|it| to_answer(it, call, tool)).collect())
        }
    }
}
