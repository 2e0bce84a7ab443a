//! Validates tool answers: each call must be answered by exactly one message.

use crate::{
    AgentError,
    command::{Command, CommandUpdate},
    message::{Message, REMOVE_ALL, ToolCall, python_messages},
    tool::{InputKind, ToolAnswer},
};

/// Validates the answer of a tool. In commands, sets `name` to the tool's name in each message that answers the call.
pub(super) fn check_output(
    answer: ToolAnswer,
    call: &ToolCall,
    input: InputKind,
) -> Result<ToolAnswer, AgentError> {
    match answer {
        ToolAnswer::Message(message) => Ok(ToolAnswer::Message(message)),
        ToolAnswer::Command(command) => {
            check_input_kind(&command, call, input)?;
            let (command, answers) = name_answers(command, call);
            if answers == 0 && needs_answer(&command) {
                return Err(missing_answer(&command, call));
            }
            Ok(ToolAnswer::Command(command))
        }
        ToolAnswer::Many(parts) => {
            let mut answers = 0;
            let check = |part| match part {
                ToolAnswer::Command(command) => {
                    let (command, named) = name_answers(command, call);
                    answers += named;
                    ToolAnswer::Command(command)
                }
                ToolAnswer::Message(message) => {
                    answers += usize::from(message.tool_call_id == call.id());
                    ToolAnswer::Message(message)
                }
                many @ ToolAnswer::Many(_) => many,
            };
            let parts = parts.into_iter().map(check).collect();
            if answers == 1 {
                return Ok(ToolAnswer::Many(parts));
            }
            Err(AgentError::value(format!(
                "Tool {} returned a list with {answers} messages bound to tool_call_id '{}'; \
                 expected exactly one terminating ToolMessage.",
                call.name,
                call.id()
            )))
        }
    }
}

/// Checks that the update of a command fits the kind of the node's input.
fn check_input_kind(
    command: &Command,
    call: &ToolCall,
    input: InputKind,
) -> Result<(), AgentError> {
    match (&command.update, input) {
        (Some(CommandUpdate::Fields(update)), InputKind::List) => {
            let messages = update.written_messages().unwrap_or_default();
            Err(AgentError::value(format!(
                "Tools can provide a dict in Command.update only when using dict with 'messages' key as ToolNode \
                 input, got: {{'messages': {}}} for tool '{}'",
                python_messages(&messages),
                call.name
            )))
        }
        (Some(CommandUpdate::Messages(messages)), InputKind::State) => {
            Err(AgentError::value(format!(
                "Tools can provide a list of messages in Command.update only when using list of messages as ToolNode \
                 input, got: {} for tool '{}'",
                python_messages(messages),
                call.name
            )))
        }
        _ => Ok(()),
    }
}

/// Sets `name` to the tool's name in each message of the command that answers the call. Returns the number of such
/// messages.
fn name_answers(command: Command, call: &ToolCall) -> (Command, usize) {
    let mut messages = command.written_messages();
    let mut answers = 0;
    for message in &mut messages {
        if let Message::Tool(message) = message
            && message.tool_call_id == call.id()
        {
            message.name = Some(call.name.clone());
            answers += 1;
        }
    }
    let command = if answers > 0 { command.with_messages(messages) } else { command };
    (command, answers)
}

fn needs_answer(command: &Command) -> bool {
    let removes_all =
        |messages: Vec<Message>| matches!(&*messages, [Message::Remove { id }] if id == REMOVE_ALL);
    !command.parent && command.update.is_some() && !removes_all(command.written_messages())
}

fn missing_answer(command: &Command, call: &ToolCall) -> AgentError {
    let example = match &command.update {
        Some(CommandUpdate::Messages(_)) => {
            "`Command(update=[ToolMessage(\"Success\", tool_call_id=tool_call_id), ...], ...)`"
        }
        _ => {
            "`Command(update={\"messages\": [ToolMessage(\"Success\", tool_call_id=tool_call_id), ...]}, ...)`"
        }
    };
    let messages = command.written_messages();
    AgentError::value(format!(
        "Expected to have a matching ToolMessage in Command.update for tool '{}', got: {}. Every tool call (LLM \
         requesting to call a tool) in the message history MUST have a corresponding ToolMessage. You can fix it by \
         modifying the tool to return {example}.",
        call.name,
        python_messages(&messages)
    ))
}
