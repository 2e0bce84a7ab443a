//! Lets a model choose the tools for each model call.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use graph_core::NodeError;
use serde_json::{Value, json};

use super::hooks::{Hooks, Middleware, ModelWrapper};
use crate::{
    AgentError,
    message::Message,
    model::{
        ChatModel, ModelAnswer, ModelHandler, ModelRequest, OutputSchema, Prompt, RequestTool,
        SharedModel, structured,
    },
    notation,
};

const SYSTEM_PROMPT: &str = "\
Your task is to choose the tools that are most relevant for answering the user's request.";

/// Lets a model choose the tools that the agent's model sees.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, middleware::ToolSelector, tool};
///
/// /// Returns the time.
/// #[tool]
/// async fn clock() -> &'static str {
///     "noon"
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let chooser = ScriptedModel::new([AiMessage::new(r#"{"tools": ["clock"]}"#)]);
/// let agent = Agent::new(ScriptedModel::new([AiMessage::new("It is noon.")]))
///     .tools([clock()])
///     .middleware(ToolSelector::new().model(chooser).max_tools(3))
///     .compile()?;
/// assert_eq!(agent.run("What time is it?").await?.text(), "It is noon.");
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use]
pub struct ToolSelector {
    model: Option<SharedModel>,
    wrapper: Option<ModelWrapper>,
    system_prompt: String,
    max_tools: Option<usize>,
    always_include: Vec<String>,
    max_retries: u32,
    on_parsing_failure: OnParsingFailure,
}

/// Action to take if the model's selection of tools cannot be parsed.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum OnParsingFailure {
    /// The model call fails.
    #[default]
    Fail,
    /// No tool is chosen.
    NoTools,
    /// All tools are chosen.
    AllTools,
    /// These tools are chosen.
    Tools(Vec<String>),
    /// The tools that the function returns are chosen.
    With(Arc<dyn Fn() -> Vec<String> + Send + Sync>),
}

impl fmt::Debug for OnParsingFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail => f.write_str("Fail"),
            Self::NoTools => f.write_str("NoTools"),
            Self::AllTools => f.write_str("AllTools"),
            Self::Tools(names) => f.debug_tuple("Tools").field(names).finish(),
            Self::With(_) => f.write_str("With"),
        }
    }
}

impl fmt::Debug for ToolSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolSelector").field("max_tools", &self.max_tools).finish_non_exhaustive()
    }
}

impl Default for ToolSelector {
    fn default() -> Self {
        Self {
            model: None,
            wrapper: None,
            system_prompt: SYSTEM_PROMPT.to_owned(),
            max_tools: None,
            always_include: Vec::new(),
            max_retries: 1,
            on_parsing_failure: OnParsingFailure::Fail,
        }
    }
}

impl ToolSelector {
    /// Creates the middleware. The agent's own model chooses, unless another one is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the model that chooses.
    pub fn model(mut self, model: impl ChatModel + 'static) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// Sets the system prompt of the model that chooses.
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = prompt.into();
        self
    }

    /// Sets the maximum number of chosen tools. Names beyond the maximum are ignored.
    pub fn max_tools(mut self, max: usize) -> Self {
        self.max_tools = Some(max);
        self
    }

    /// Sets tools that the model always sees.
    pub fn always_include<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.always_include = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how often the model is asked again if its selection cannot be parsed.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Sets the action to take if the model's selection still cannot be parsed after the last retry.
    pub fn on_parsing_failure(mut self, action: OnParsingFailure) -> Self {
        self.on_parsing_failure = action;
        self
    }

    fn prompt(&self, request: &ModelRequest) -> Result<Prompt, AgentError> {
        let is_human = |it: &&Message| matches!(it, Message::Human(_));
        let newest = request.messages.iter().rev().find(is_human).ok_or_else(|| {
            AgentError::named("AssertionError", "No user message found in request messages")
        })?;
        let system = match self.max_tools {
            None => self.system_prompt.clone(),
            Some(max) => format!(
                "{}\nIMPORTANT: List the tool names in order of relevance, with the most relevant first. If you exceed \
                 the maximum number of tools, only the first {max} will be used.",
                self.system_prompt
            ),
        };
        let messages = vec![newest.clone()].into();
        Ok(Prompt { system: Some(system.into()), messages, ..Prompt::default() })
    }

    /// Asks the model to select tools. Returns their names, or `None` if no selection can be parsed.
    async fn choose(
        &self,
        request: &ModelRequest,
        candidates: &[&RequestTool],
    ) -> Result<Option<Vec<String>>, NodeError> {
        let prompt = self.prompt(request)?;
        let schema = schema(candidates);
        let model = self.model.as_ref().unwrap_or(&request.model).clone();
        let model = match &self.wrapper {
            Some(wrap) => wrap(model),
            None => model,
        };
        for _ in 0..=self.max_retries {
            let choice = structured(&*model, &prompt, &schema).await?;
            if let Some(names) = read_names(&choice) {
                return Ok(Some(names));
            }
        }
        Ok(None)
    }

    /// Returns the names of the selected tools, at most `max_tools`. If the selection cannot be parsed, applies
    /// `on_parsing_failure`.
    async fn chosen_names(
        &self,
        request: &ModelRequest,
        candidates: &[&RequestTool],
    ) -> Result<Vec<String>, NodeError> {
        let names = candidates.iter().map(|it| it.name().to_owned());
        let Some(mut chosen) = self.choose(request, candidates).await? else {
            return match &self.on_parsing_failure {
                OnParsingFailure::NoTools => Ok(Vec::new()),
                OnParsingFailure::AllTools => Ok(names.collect()),
                OnParsingFailure::Tools(names) => Ok(names.clone()),
                OnParsingFailure::With(names) => Ok(names()),
                OnParsingFailure::Fail => {
                    let text = "the tool selector cannot parse the model's choice of tools; use a model with \
                                structured output, or set `on_parsing_failure`";
                    Err(AgentError::value(text).into())
                }
            };
        };
        let known: Vec<_> = names.collect();
        let invalid: Vec<_> = chosen.iter().filter(|it| !known.contains(it)).collect();
        if !invalid.is_empty() {
            let text = format!("Model selected invalid tools: {}", notation::python_list(invalid));
            return Err(AgentError::value(text).into());
        }
        if let Some(max) = self.max_tools {
            chosen.truncate(max);
        }
        Ok(chosen)
    }
}

fn read_names(choice: &Value) -> Option<Vec<String>> {
    let names = choice.get("tools")?.as_array()?.iter();
    names.map(|it| it.as_str().map(str::to_owned)).collect()
}

fn schema(candidates: &[&RequestTool]) -> OutputSchema {
    let option = |tool: &&RequestTool| {
        let description = match tool {
            RequestTool::Client(tool) => tool.description(),
            RequestTool::Provider(_) => "",
        };
        json!({"const": tool.name(), "description": description})
    };
    let options: Vec<_> = candidates.iter().map(option).collect();
    OutputSchema {
        name: "ToolSelectionResponse".to_owned(),
        schema: json!({
            "type": "object",
            "properties": {"tools": {"type": "array", "items": {"anyOf": options}}},
            "required": ["tools"],
        }),
        strict: None,
    }
}

#[async_trait]
impl Middleware for ToolSelector {
    fn name(&self) -> String {
        "LLMToolSelectorMiddleware".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().wrap_model_call()
    }

    fn with_wrapped_models(&self, wrap: &ModelWrapper) -> Option<Arc<dyn Middleware>> {
        Some(Arc::new(Self { wrapper: Some(wrap.clone()), ..self.clone() }))
    }

    async fn wrap_model_call(
        &self,
        mut request: ModelRequest,
        next: ModelHandler,
    ) -> Result<ModelAnswer, NodeError> {
        let (client, provider): (Vec<_>, Vec<_>) =
            request.tools.iter().partition(|it| matches!(it, RequestTool::Client(_)));
        let missing: Vec<_> = self
            .always_include
            .iter()
            .filter(|name| !client.iter().any(|it| it.name() == *name))
            .collect();
        if !client.is_empty() && !missing.is_empty() {
            return Err(AgentError::value(format!(
                "Tools in always_include not found in request: {}",
                notation::python_list(missing)
            ))
            .into());
        }
        let (always, candidates): (Vec<_>, Vec<_>) = client
            .into_iter()
            .partition(|it| self.always_include.iter().any(|name| name == it.name()));
        if candidates.is_empty() {
            return next.call(request).await;
        }
        let chosen = self.chosen_names(&request, &candidates).await?;
        let chosen =
            candidates.into_iter().filter(|it| chosen.iter().any(|name| name == it.name()));
        request.tools = chosen.chain(always).chain(provider).cloned().collect();
        next.call(request).await
    }
}
