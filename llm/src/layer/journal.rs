//! The journal: stores the model calls of a graph node, so that they are not repeated when the graph run resumes.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use graph_core::{Context, DivergenceError, NodeError, RecordedError};

use super::key::{Key, Occurrences};
use crate::{Error, ErrorKind, Listener, Llm, Model, ModelId, Request, Response};

impl Llm {
    /// Runs each call as a [journaled task](Context::task) of the node that `cx` belongs to.
    ///
    /// When the node runs again after a crash, a retry or an interrupt, completed calls return their stored
    /// responses and are not billed again. Identical calls are matched by their order, so create the journal once
    /// per node execution and clone it.
    ///
    /// A [budget](Llm::budget) that wraps this layer is also charged for responses from the journal, so it counts the
    /// cost of the whole thread. A budget inside this layer counts only the cost of this graph run.
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
        Self::new(JournaledModel {
            inner: self,
            cx: cx.clone(),
            occurrences: Occurrences::default(),
        })
    }
}

struct JournaledModel<C> {
    inner: Llm,
    cx: Context<C>,
    occurrences: Occurrences,
}

impl<C> fmt::Debug for JournaledModel<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournaledModel").field("inner", &self.inner).field("cx", &self.cx).finish()
    }
}

#[async_trait]
impl<C: Send + Sync + 'static> Model for JournaledModel<C> {
    fn id(&self) -> ModelId {
        self.inner.id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let key = Key::of(&self.id(), request);
        let mut number = OccurrenceNumber {
            occurrences: &self.occurrences,
            key,
            nth: self.occurrences.next(key),
            is_used: false,
        };
        let called = AtomicBool::new(false);
        let call = async {
            called.store(true, Ordering::Relaxed);
            self.inner.call(request, listener).await.map_err(into_node_error)
        };
        let outcome = self.cx.task("llm", format!("{key}#{}", number.nth), call).await;
        let response = outcome.map_err(|error| from_node_error(&error, self.id()))?;
        number.is_used = true;
        if !called.into_inner() {
            listener.send_response(&response);
        }
        Ok(response)
    }
}

/// Occurrence number of a call among identical calls. Only responses are journaled, so a call that fails or is
/// dropped releases its number. When the node runs again, it therefore finds each response under the same number.
struct OccurrenceNumber<'a> {
    occurrences: &'a Occurrences,
    key: Key,
    nth: usize,
    is_used: bool,
}

impl Drop for OccurrenceNumber<'_> {
    fn drop(&mut self) {
        if !self.is_used {
            self.occurrences.release(self.key, self.nth);
        }
    }
}

fn into_node_error(error: Error) -> NodeError {
    if error.is_retryable() { error.into() } else { NodeError::terminal(error) }
}

/// Returns the original error if the call failed, or else an error that describes why journaling failed.
fn from_node_error(error: &NodeError, model: ModelId) -> Error {
    if let Some(error) = error.downcast_ref::<Error>() {
        return error.clone();
    }
    let recorded = error.downcast_ref::<DivergenceError>().is_some()
        || error.downcast_ref::<RecordedError>().is_some();
    let kind = if recorded { ErrorKind::NotRecorded } else { ErrorKind::File };
    let should_retry = Some(!error.is_terminal());
    Error { should_retry, ..Error::new(kind, model, error.to_string()) }
}
