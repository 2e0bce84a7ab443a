//! Publishes the pieces of responses to the message stream of the graph run that asked for them.

use std::any::Any;

use graph_core::Context;

use crate::{Error, Llm, Request, Response};

impl Llm {
    /// Stops [`generate`](Llm::generate) from sending pieces to the message stream of the graph run, like LangGraph's
    /// tag `nostream`. Use it for calls whose text is not meant for the user, such as classifications.
    ///
    /// Adding a layer resets this setting, so call this method after adding all layers.
    ///
    /// ```
    /// use graph_core::{Context, EventKind, NodeError, RunOptions, START, State, StateGraph, StreamMode};
    /// use llm::{Llm, Reply, Request, Scripted};
    ///
    /// #[derive(State, Clone, Debug, Default)]
    /// struct Essay {
    ///     text: String,
    /// }
    ///
    /// async fn write(_: &Essay, cx: &Context<Llm>) -> Result<EssayUpdate, NodeError> {
    ///     let spam_check = cx.deps().clone().nostream();
    ///     spam_check.generate("Is the topic spam?").await?;
    ///     Ok(Essay::update().text(cx.deps().generate("Write about tea.").await?.text()))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let llm = Llm::new(Scripted::new("echo", |it: &Request| Reply::from(it.prompt())));
    /// let graph = StateGraph::<Essay, Llm>::new().node(write).edge(START, write).compile()?;
    /// let options = RunOptions::new().stream_modes([StreamMode::Messages]);
    /// let mut events = graph.with(options).stream(Essay::default(), llm);
    /// let mut text = String::new();
    /// while let Some(event) = events.next().await {
    ///     if let EventKind::Message(piece) = event.kind {
    ///         text.push_str(piece["text"].as_str().unwrap_or_default());
    ///     }
    /// }
    /// assert_eq!(text, "Write about tea.");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn nostream(mut self) -> Self {
        self.nostream = true;
        self
    }

    /// Returns the context of the running node, if its run streams messages and this handle sends to the stream.
    pub(crate) fn message_stream(&self) -> Option<Context<dyn Any>> {
        Context::current_any().filter(|it| !self.nostream && it.streams_messages())
    }

    pub(crate) async fn generate_to_stream(
        &self,
        request: Request,
        cx: &Context<dyn Any>,
    ) -> Result<Response, Error> {
        let mut stream = self.stream(request);
        while let Some(piece) = stream.next().await {
            cx.message(piece).await;
        }
        stream.response().await
    }
}
