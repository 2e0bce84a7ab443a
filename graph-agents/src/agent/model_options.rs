//! Options of an agent's model calls.

use llm::ProviderTool;
use serde_json::Value;

use super::builder::Agent;

impl Agent {
    /// Default value of [`malformed_call_retries`](Self::malformed_call_retries).
    pub const MALFORMED_CALL_RETRIES: usize = 2;

    /// Adds a tool that the provider executes, such as a web search.
    ///
    /// ```
    /// use graph_agents::{Agent, LlmModel};
    /// use llm::{Llm, ProviderTool, Request, Scripted, WebSearch};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = Scripted::new("searcher", |request: &Request| match &request.provider_tools[..] {
    ///     [ProviderTool::WebSearch(_), ProviderTool::CodeExecution] => "It rains.",
    ///     _ => "I cannot search.",
    /// });
    /// let search = WebSearch { max_uses: Some(3), ..WebSearch::default() };
    /// let agent = Agent::new(LlmModel::new(Llm::new(model)))
    ///     .provider_tool(ProviderTool::WebSearch(search))
    ///     .provider_tool(ProviderTool::CodeExecution)
    ///     .compile()?;
    /// assert_eq!(agent.run("Does it rain in Rome?").await?.text(), "It rains.");
    /// # Ok(()) }
    /// ```
    pub fn provider_tool(mut self, tool: ProviderTool) -> Self {
        self.provider_tools.push(tool);
        self
    }

    /// Sets whether the model may call several tools in one message. Default: the provider decides. Middleware can
    /// change it for one call with the setting `parallel_tool_calls` of the
    /// [`ModelRequest`](crate::model::ModelRequest).
    ///
    /// ```
    /// use graph_agents::{Agent, LlmModel};
    /// use llm::{Llm, Request, Scripted};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = Scripted::new("m", |it: &Request| format!("{:?}", it.parallel_tool_calls));
    /// let agent = Agent::new(LlmModel::new(Llm::new(model))).parallel_tool_calls(false).compile()?;
    /// assert_eq!(agent.run("Hi").await?.text(), "Some(false)");
    /// # Ok(()) }
    /// ```
    pub fn parallel_tool_calls(self, allowed: bool) -> Self {
        self.setting("parallel_tool_calls", allowed.into())
    }

    /// Requests the log probability of each token and this number of alternatives. They are returned in
    /// [`AiMessage::logprobs`](crate::AiMessage::logprobs). Middleware can change the number for one call with the
    /// setting `logprobs` of the [`ModelRequest`](crate::model::ModelRequest).
    ///
    /// ```
    /// use graph_agents::{Agent, LlmModel};
    /// use llm::{Llm, Request, Scripted};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = Scripted::new("m", |it: &Request| format!("{:?}", it.logprobs));
    /// let agent = Agent::new(LlmModel::new(Llm::new(model))).logprobs(3).compile()?;
    /// assert_eq!(agent.run("Hi").await?.text(), "Some(3)");
    /// # Ok(()) }
    /// ```
    pub fn logprobs(self, alternatives: u8) -> Self {
        self.setting("logprobs", alternatives.into())
    }

    fn setting(mut self, name: &str, value: Value) -> Self {
        self.settings.insert(name.to_owned(), value);
        self
    }

    /// Sets how many times in a row the model is called again after a message in which all tool calls are malformed.
    ///
    /// A call is malformed if its arguments are not a JSON object. [`LlmModel`](crate::LlmModel) repairs arguments if
    /// their meaning is certain, such as an object in a code block. The agent does not execute calls that cannot be
    /// repaired. It answers each of them with an error, so that the model can correct the call. If all calls of a
    /// message are malformed, the model is called again, by default up to
    /// [`MALFORMED_CALL_RETRIES`](Self::MALFORMED_CALL_RETRIES) times in a row. After the last retry, the message ends
    /// the run like an answer. With 0, the message ends the run immediately, as in LangChain. Limits on model calls
    /// also count these calls.
    ///
    /// ```
    /// use graph_agents::{Agent, LlmModel, tool};
    /// use llm::{Llm, Reply, Scripted};
    /// use serde_json::json;
    ///
    /// /// Returns the weather in a city.
    /// #[tool]
    /// async fn weather(city: String) -> String {
    ///     format!("It rains in {city}.")
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let call = |arguments| Reply::ToolCall { name: "weather".into(), arguments };
    /// let replies = [call(json!("{\"city\": Rome}")), call(json!({"city": "Rome"})), "Yes.".into()];
    /// let model = LlmModel::new(Llm::new(Scripted::replies("small", replies)));
    /// let agent = Agent::new(model).tools([weather()]).malformed_call_retries(1).compile()?;
    /// let outcome = agent.run("Does it rain in Rome?").await?;
    /// assert_eq!(outcome.text(), "Yes.");
    /// assert!(outcome.messages[2].text().contains("arguments were malformed"));
    /// # Ok(()) }
    /// ```
    pub fn malformed_call_retries(mut self, retries: usize) -> Self {
        self.malformed_call_retries = retries;
        self
    }
}
