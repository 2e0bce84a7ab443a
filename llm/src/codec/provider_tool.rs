//! Encodes tools that run at the provider.

use serde_json::{Map, Value, json};

use super::{call_error::CallError, openai_chat::quirks::Quirks};
use crate::{ErrorKind, ProviderTool, Request, WebSearch};

/// The list in a request's body that contains a tool, and the encoded tool; or the reason why the provider cannot run
/// it.
type Encoded = Result<(&'static str, Value), &'static str>;

const NOT_RUN: &str = "the provider does not run this tool; remove it or use another provider";
const NO_MAX_USES: &str = "the provider cannot limit the number of searches; remove `max_uses`";

/// Adds the request's provider tools to the body.
pub(super) fn put(
    request: &Request,
    body: &mut Map<String, Value>,
    encode: impl Fn(&ProviderTool) -> Encoded,
) -> Result<(), CallError> {
    for tool in &request.provider_tools {
        let encoded = match tool {
            ProviderTool::Custom(definition) => Ok(("tools", definition.clone())),
            _ => encode(tool),
        };
        let (list, tool) =
            encoded.map_err(|message| CallError::new(ErrorKind::BadRequest, message))?;
        if let Some(list) = body.entry(list).or_insert_with(|| json!([])).as_array_mut() {
            list.push(tool);
        }
    }
    Ok(())
}

/// Returns whether the request lets the provider execute code.
pub(super) fn runs_code(request: &Request) -> bool {
    request.provider_tools.contains(&ProviderTool::CodeExecution)
}

pub(super) fn anthropic(tool: &ProviderTool) -> Encoded {
    let ProviderTool::WebSearch(search) = tool else {
        return Ok((
            "tools",
            json!({ "type": "code_execution_20250825", "name": "code_execution" }),
        ));
    };
    let mut tool = json!({ "type": "web_search_20250305", "name": "web_search" });
    if let Some(max_uses) = search.max_uses {
        tool["max_uses"] = max_uses.into();
    }
    if !search.allowed_domains.is_empty() {
        tool["allowed_domains"] = search.allowed_domains.clone().into();
    }
    Ok(("tools", tool))
}

pub(super) fn responses(tool: &ProviderTool) -> Encoded {
    let ProviderTool::WebSearch(search) = tool else {
        let container = json!({ "type": "auto" });
        return Ok(("tools", json!({ "type": "code_interpreter", "container": container })));
    };
    if search.max_uses.is_some() {
        return Err(NO_MAX_USES);
    }
    let mut tool = json!({ "type": "web_search" });
    if !search.allowed_domains.is_empty() {
        tool["filters"] = json!({ "allowed_domains": search.allowed_domains });
    }
    Ok(("tools", tool))
}

pub(super) fn gemini(tool: &ProviderTool) -> Encoded {
    if let ProviderTool::WebSearch(search) = tool {
        return unrestricted(search, ("tools", json!({ "googleSearch": {} })));
    }
    Ok(("tools", json!({ "codeExecution": {} })))
}

pub(super) fn chat(quirks: &Quirks, tool: &ProviderTool) -> Encoded {
    match (tool, *quirks) {
        (ProviderTool::WebSearch(search), Quirks::GROQ) => {
            unrestricted(search, ("tools", json!({ "type": "browser_search" })))
        }
        (ProviderTool::WebSearch(search), Quirks::OPENROUTER) => {
            unrestricted(search, ("plugins", json!({ "id": "web" })))
        }
        (ProviderTool::CodeExecution, Quirks::GROQ) => {
            Ok(("tools", json!({ "type": "code_interpreter" })))
        }
        (_, Quirks::OPENAI) => {
            Err("OpenAI runs tools only in the Responses API; use `Provider::responses_api`")
        }
        _ => Err(NOT_RUN),
    }
}

pub(super) fn ollama(_: &ProviderTool) -> Encoded {
    Err(NOT_RUN)
}

/// Rejects restrictions of a search that the provider cannot enforce, because a search without them could read pages
/// that the caller excluded.
fn unrestricted(search: &WebSearch, tool: (&'static str, Value)) -> Encoded {
    match search {
        WebSearch { max_uses: Some(_), .. } => Err(NO_MAX_USES),
        WebSearch { allowed_domains, .. } if !allowed_domains.is_empty() => {
            Err("the provider cannot restrict searches to domains; remove `allowed_domains`")
        }
        _ => Ok(tool),
    }
}
