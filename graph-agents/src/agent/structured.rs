//! Conversion of a model's message into an answer with a structured response.

use crate::{
    AgentError,
    message::{AiMessage, ToolCall, ToolMessage},
    model::ModelAnswer,
    response::{ResponseFormat, ResponseSchema, Strategy, parse_text},
};

/// Converts the model's message into an answer and parses its structured response.
pub(super) fn to_answer(
    message: AiMessage,
    format: Option<&ResponseFormat>,
    native: bool,
) -> Result<ModelAnswer, AgentError> {
    match format {
        None => Ok(message.into()),
        Some(format) => match format.resolve(native) {
            Strategy::Provider => by_provider(message, format),
            Strategy::Tool | Strategy::Auto => by_tool(message, format),
        },
    }
}

fn by_provider(message: AiMessage, format: &ResponseFormat) -> Result<ModelAnswer, AgentError> {
    // A message with calls, even malformed ones, is not the final answer.
    let is_final = message.tool_calls.is_empty() && message.invalid_tool_calls.is_empty();
    let Some(schema) = format.schemas.first().filter(|_| is_final) else {
        return Ok(message.into());
    };
    let data = parse_text(&schema.name, &message.content.text())?;
    let structured = Some(schema.check(&data)?);
    Ok(ModelAnswer { structured, ..message.into() })
}

fn by_tool(message: AiMessage, format: &ResponseFormat) -> Result<ModelAnswer, AgentError> {
    let calls = message.tool_calls.iter();
    let calls: Vec<(ToolCall, ResponseSchema)> =
        calls.filter_map(|it| Some((it.clone(), format.schema(&it.name)?.clone()))).collect();
    let error = match calls.as_slice() {
        [] => return Ok(message.into()),
        [(call, schema)] => match schema.check(&call.args) {
            Ok(value) => {
                let text = format.tool_message.clone().unwrap_or_else(|| {
                    format!("Returning structured response: {}", (schema.format)(&value))
                });
                let mut answer = ModelAnswer::from(message);
                answer.messages.push(ToolMessage::success(call, text).into());
                answer.structured = Some(value);
                return Ok(answer);
            }
            Err(error) => error,
        },
        several => {
            let names: Vec<_> = several.iter().map(|it| it.0.name.as_str()).collect();
            AgentError::named(
                "MultipleStructuredOutputsError",
                format!(
                    "Model incorrectly returned multiple structured responses ({}) when only one is expected.",
                    names.join(", ")
                ),
            )
        }
    };
    let Some(text) = format.errors.answer(&error) else { return Err(error) };
    let mut answer = ModelAnswer::from(message);
    let results = calls.iter().map(|(call, _)| ToolMessage::success(call, text.clone()).into());
    answer.messages.extend(results);
    Ok(answer)
}
