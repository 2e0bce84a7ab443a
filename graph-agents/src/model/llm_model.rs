//! The models of the crate `llm` as models of an agent.

use async_trait::async_trait;
use graph_core::NodeError;
use llm::{Catalog, Listener, Llm, Model, Piece, Request, Schema};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    chat::{ChatModel, ChunkSink, ModelProfile, ModelTool, Prompt, ToolChoice},
    settings::{InvalidSettings, Settings},
};
use crate::message::{AiMessage, from_response, to_llm};

/// A model of the crate `llm`.
///
/// It accepts these [`settings`](Prompt::settings): `temperature`, `max_tokens`, `stop` (a list), `seed`,
/// `parallel_tool_calls`, `logprobs` (the number of alternatives per token) and `effort`. They have the meaning of the
/// fields of [`Request`] with these names.
///
/// ```
/// use graph_agents::{Agent, LlmModel};
/// use llm::{Llm, Request, Scripted};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // For a real provider: `llm::create_provider("anthropic", None, None)?`.
/// let llm = Llm::new(Scripted::new("parrot", |_| "Because of the air."));
/// let model = LlmModel::new(llm).with_options(Request::new("").temperature(0.2).max_tokens(500));
/// let agent = Agent::new(model).prompt("You are a physicist.").compile()?;
/// assert_eq!(agent.run("Why is the sky blue?").await?.text(), "Because of the air.");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct LlmModel {
    llm: Llm,
    profile: ModelProfile,
    request: Request,
}

impl LlmModel {
    /// Creates a model. If the built-in [`Catalog`] contains it, its maximum number of input tokens is the catalog's
    /// context window.
    pub fn new(llm: Llm) -> Self {
        let context = Catalog::builtin().entry(&llm.id()).and_then(|it| it.context);
        let max_input_tokens = context.and_then(|it| usize::try_from(it).ok());
        let profile = ModelProfile { structured_output: true, max_input_tokens };
        Self { llm, profile, request: Request::conversation(Vec::new()) }
    }

    /// Sets the abilities of the model. The default assumes that the provider can restrict responses to a schema.
    #[must_use]
    pub fn with_profile(mut self, profile: ModelProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the options of all requests, such as the temperature. The system prompt, messages, tools, tool choice and
    /// schema of `request` are ignored. Its provider tools are kept.
    #[must_use]
    pub fn with_options(mut self, request: Request) -> Self {
        self.request = request;
        self
    }

    fn to_request(&self, prompt: &Prompt) -> Result<Request, InvalidSettings> {
        let (system, messages) = to_llm(prompt.system.as_ref(), &prompt.messages);
        let mut request = Request { system, messages, tools: Vec::new(), ..self.request.clone() };
        for tool in &prompt.tools {
            match tool {
                ModelTool::Function { name, description, parameters, strict } => {
                    let tool = llm::Tool::new(name, description, Value::clone(parameters));
                    request.tools.push(llm::Tool { strict: *strict, ..tool });
                }
                ModelTool::Provider(tool) => request.provider_tools.push(tool.clone()),
            }
        }
        request.tool_choice = match &prompt.tool_choice {
            None => llm::ToolChoice::Auto,
            Some(ToolChoice::Any) => llm::ToolChoice::Required,
            Some(ToolChoice::None) => llm::ToolChoice::None,
            Some(ToolChoice::Tool(name)) => llm::ToolChoice::Tool(name.clone()),
        };
        request.schema = prompt
            .output
            .as_ref()
            .map(|output| Schema { name: output.name.clone(), schema: output.schema.clone() });
        request.strict_schema = prompt.output.as_ref().and_then(|it| it.strict);
        Settings::parse(&prompt.settings)?.apply(&mut request);
        Ok(request)
    }
}

impl From<Llm> for LlmModel {
    fn from(llm: Llm) -> Self {
        Self::new(llm)
    }
}

#[async_trait]
impl ChatModel for LlmModel {
    fn profile(&self) -> ModelProfile {
        self.profile
    }

    async fn call(
        &self,
        prompt: &Prompt,
        chunks: &mut ChunkSink<'_>,
    ) -> Result<AiMessage, NodeError> {
        let request = self.to_request(prompt).map_err(NodeError::terminal)?;
        let (sender, mut pieces) = mpsc::unbounded_channel();
        let call = async move {
            let mut on_piece = move |piece: Piece| drop(sender.send(piece));
            self.llm.call(&request, &mut Listener::new(&mut on_piece)).await
        };
        let forward = async {
            while let Some(piece) = pieces.recv().await {
                if let Piece::Text(text) = piece {
                    chunks.send(AiMessage::new(text)).await;
                }
            }
        };
        let (response, ()) = futures_util::future::join(call, forward).await;
        Ok(from_response(response?))
    }
}
