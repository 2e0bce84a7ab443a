//! The journal: calls inside a graph's node that a resumed run does not make again.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use graph_core::{Context, Diverged, NodeError, RecordedError};

use super::key::{Key, Occurrences};
use crate::{Error, ErrorKind, Listener, Llm, Model, ModelId, Request, Response};

impl Llm {
    /// Makes each call a [journaled one](Context::task) of the node that runs in this context.
    ///
    /// When the node runs again, after a crash, a retry or an interrupt, calls that were answered come back with
    /// the same answers, and are not paid for again. Equal calls are told apart by their order, so make the
    /// journal once in a node, and clone it.
    ///
    /// A [budget](Llm::budget) above this layer counts what the whole thread has cost, one below it what this
    /// run has.
    ///
    /// ```
    /// # use graph_core::{Context, NodeError};
    /// # use llm::Llm;
    /// async fn summarise(text: &str, cx: &Context<Llm>) -> Result<String, NodeError> {
    ///     let llm = cx.deps().clone().journal(cx);
    ///     Ok(llm.generate(format!("Say in one sentence: {text}")).await?.text())
    /// }
    /// ```
    pub fn journal<C: Send + Sync + 'static>(self, cx: &Context<C>) -> Self {
        Self::new(Journaled { inner: self, cx: cx.clone(), asked: Occurrences::default() })
    }
}

struct Journaled<C> {
    inner: Llm,
    cx: Context<C>,
    asked: Occurrences,
}

impl<C> fmt::Debug for Journaled<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journaled").field("inner", &self.inner).field("cx", &self.cx).finish()
    }
}

#[async_trait]
impl<C: Send + Sync + 'static> Model for Journaled<C> {
    fn id(&self) -> ModelId {
        self.inner.id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let key = Key::of(&self.id(), request);
        let mut number =
            Number { asked: &self.asked, key, nth: self.asked.next(key), is_used: false };
        let made = AtomicBool::new(false);
        let call = async {
            made.store(true, Ordering::Relaxed);
            self.inner.call(request, listener).await.map_err(into_node_error)
        };
        let outcome = self.cx.task("llm", format!("{key}#{}", number.nth), call).await;
        let response = outcome.map_err(|error| from_node_error(&error, self.id()))?;
        number.is_used = true;
        if !made.into_inner() {
            listener.tell_all(&response);
        }
        Ok(response)
    }
}

/// Which of the equal calls one is. Only answers are journaled, so a call that fails or is dropped gives its number
/// back: a node that runs again asks for the answer by the number that it would have without the failure.
struct Number<'a> {
    asked: &'a Occurrences,
    key: Key,
    nth: usize,
    is_used: bool,
}

impl Drop for Number<'_> {
    fn drop(&mut self) {
        if !self.is_used {
            self.asked.give_back(self.key, self.nth);
        }
    }
}

fn into_node_error(error: Error) -> NodeError {
    if error.is_retryable() { error.into() } else { NodeError::terminal(error) }
}

/// The error of the call as it was, or what went wrong around it.
fn from_node_error(error: &NodeError, model: ModelId) -> Error {
    if let Some(error) = error.downcast_ref::<Error>() {
        return error.clone();
    }
    let recorded = error.downcast_ref::<Diverged>().is_some()
        || error.downcast_ref::<RecordedError>().is_some();
    let kind = if recorded { ErrorKind::NotRecorded } else { ErrorKind::File };
    let should_retry = Some(!error.is_terminal());
    Error { should_retry, ..Error::new(kind, model, error.to_string()) }
}
