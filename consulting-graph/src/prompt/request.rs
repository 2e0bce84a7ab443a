//! Parts of requests that do not depend on the kind of prompt.

use llm::{Message, Request};

use crate::{config::Persona, fence::Fence};

pub(crate) fn request_for(persona: &Persona, fence: &Fence, messages: Vec<Message>) -> Request {
    let system = format!("{}\n\n{}", persona.system_prompt.trim(), fence.instruction());
    Request::conversation(messages).system(system)
}

/// Marks the prompt up to the last message as cacheable, because later prompts start with the same messages.
pub(super) fn mark_cacheable(messages: &mut [Message]) {
    if let Some(last) = messages.last_mut() {
        last.cache = true;
    }
}
