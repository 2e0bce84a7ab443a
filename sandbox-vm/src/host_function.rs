//! Functions of the host that a graph in a guest can call.

use std::{collections::BTreeMap, fmt, future::Future, marker::PhantomData, pin::Pin, sync::Arc};

use async_trait::async_trait;
use graph_core::{Context, NodeError};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{CallError, CallExecutor, CallPolicy, guest::Host};

/// A function of the host that a graph in a guest can call, with the types of its request and its answer.
///
/// Declare it once, in code that host and guest share. The guest [calls](Self::call) it; the host implements it with
/// [`HostFunctions::add`]. Each call is an effect of the task that makes it: its answer is journaled, streamed and part
/// of the trace.
///
/// ```
/// use graph_core::{Context, NodeError};
/// use sandbox_vm::{CallError, CallPolicy, HostFunction, HostFunctions, guest::Host};
///
/// const CHAT: HostFunction<String, String> = HostFunction::new("llm.chat");
///
/// // In the guest:
/// async fn argue(round: u32, cx: &Context<Host>) -> Result<String, NodeError> {
///     CHAT.call(cx.deps(), cx, round, &format!("Round {round}: argue.")).await
/// }
///
/// // On the host:
/// let functions = HostFunctions::new()
///     .add(CHAT, async |prompt: String| Ok::<_, CallError>(format!("You said: {prompt}")));
/// let policy = CallPolicy::from(functions).budget(40).rate(10);
/// ```
pub struct HostFunction<Q, A> {
    kind: &'static str,
    types: PhantomData<fn(Q) -> A>,
}

impl<Q, A> HostFunction<Q, A> {
    /// Declares a function. `kind` is the name under which its calls are limited and journaled.
    pub const fn new(kind: &'static str) -> Self {
        Self { kind, types: PhantomData }
    }

    /// Returns the name of the function.
    pub fn kind(&self) -> &'static str {
        self.kind
    }
}

impl<Q: Serialize, A: Serialize + DeserializeOwned> HostFunction<Q, A> {
    /// Calls the function from a node in the guest: see [`Host::call`].
    pub async fn call<C: Send + Sync + 'static>(
        &self,
        host: &Host,
        cx: &Context<C>,
        key: impl Serialize,
        request: &Q,
    ) -> Result<A, NodeError> {
        host.call(cx, self.kind, key, request).await
    }
}

impl<Q, A> Clone for HostFunction<Q, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q, A> Copy for HostFunction<Q, A> {}

impl<Q, A> fmt::Debug for HostFunction<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostFunction").field(&self.kind).finish()
    }
}

/// The host's implementations of functions. To limit the calls, convert it into a [`CallPolicy`]; the policy allows
/// exactly these functions.
///
/// ```
/// use sandbox_vm::{CallError, CallPolicy, HostFunction, HostFunctions};
///
/// const CHAT: HostFunction<String, String> = HostFunction::new("llm.chat");
/// const LENGTH: HostFunction<String, usize> = HostFunction::new("text.length");
///
/// let functions = HostFunctions::new()
///     .add(CHAT, async |prompt: String| Ok::<_, CallError>(format!("You said: {prompt}")))
///     .add(LENGTH, async |text: String| Ok::<_, CallError>(text.len()));
/// let policy = CallPolicy::from(functions).budget(40);
/// # let _ = policy;
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct HostFunctions {
    functions: BTreeMap<&'static str, Arc<ErasedFunction>>,
}

type ErasedFunction =
    dyn Fn(Value) -> Pin<Box<dyn Future<Output = Result<Value, CallError>> + Send>> + Send + Sync;

impl HostFunctions {
    /// Creates an empty set of functions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Implements a function. The request comes from the guest, so it is not trusted. A request that does not have the
    /// type `Q` is refused.
    pub fn add<Q, A, F, Fut>(mut self, function: HostFunction<Q, A>, body: F) -> Self
    where
        Q: DeserializeOwned,
        A: Serialize,
        F: Fn(Q) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<A, CallError>> + Send + 'static,
    {
        let kind = function.kind;
        let erased = move |request: Value| -> Pin<Box<dyn Future<Output = _> + Send>> {
            let answer = match serde_json::from_value(request) {
                Ok(request) => body(request),
                Err(error) => {
                    let problem = format!("the request to `{kind}` is invalid: {error}");
                    return Box::pin(async { Err(CallError::terminal(problem)) });
                }
            };
            Box::pin(async move {
                serde_json::to_value(answer.await?).map_err(|error| {
                    CallError::terminal(format!("the answer of `{kind}` is invalid: {error}"))
                })
            })
        };
        self.functions.insert(kind, Arc::new(erased));
        self
    }
}

#[async_trait]
impl CallExecutor for HostFunctions {
    async fn call(&self, kind: &str, request: Value) -> Result<Value, CallError> {
        match self.functions.get(kind) {
            Some(function) => function(request).await,
            None => Err(CallError::terminal(format!("the host has no function `{kind}`"))),
        }
    }
}

impl From<HostFunctions> for CallPolicy {
    fn from(functions: HostFunctions) -> Self {
        let kinds: Vec<_> = functions.functions.keys().copied().collect();
        kinds.into_iter().fold(Self::new(functions), Self::allow)
    }
}

impl fmt::Debug for HostFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.functions.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{HostFunction, HostFunctions};
    use crate::{CallError, CallExecutor};

    const LENGTH: HostFunction<String, usize> = HostFunction::new("text.length");

    async fn call(kind: &str, request: Value) -> Result<Value, CallError> {
        let functions =
            HostFunctions::new().add(LENGTH, async |text: String| Ok::<_, CallError>(text.len()));
        functions.call(kind, request).await
    }

    #[tokio::test]
    async fn requests_are_checked_against_the_declared_type() {
        assert_eq!(call("text.length", json!("four")).await, Ok(json!(4)));
        let error = call("text.length", json!({ "text": "four" })).await.unwrap_err();
        let expected =
            "the request to `text.length` is invalid: invalid type: map, expected a string";
        assert_eq!((error.message.as_str(), error.terminal), (expected, true));
    }

    #[tokio::test]
    async fn functions_that_the_host_does_not_have_are_refused() {
        let error = call("shell", json!("id")).await.unwrap_err();
        assert_eq!(error, CallError::terminal("the host has no function `shell`"));
    }
}
