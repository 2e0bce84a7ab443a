//! Values that an agent's tools and middleware need.

use std::{
    any::{Any, TypeId, type_name},
    collections::BTreeMap,
    fmt,
    ops::Deref,
    sync::Arc,
};

use crate::AgentError;

/// Values that the tools and middleware of an agent need, such as the client of a database. Contains at most one value
/// per type. Cheap to clone.
///
/// ```
/// use graph_agents::Dependencies;
///
/// struct Prices {
///     book: u32,
/// }
///
/// // `Agent::dependency` adds a value to the dependencies of an agent; `ToolNode::dependencies` sets those of a node.
/// let dependencies = Dependencies::default().with(Prices { book: 12 });
/// assert_eq!(dependencies.get::<Prices>()?.book, 12);
/// assert!(dependencies.get::<String>().is_err());
/// # Ok::<(), graph_agents::AgentError>(())
/// ```
#[derive(Clone, Default)]
pub struct Dependencies {
    values: Arc<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Dependencies {
    /// Adds a value, replacing a value of the same type.
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        Arc::make_mut(&mut self.values).insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// Adds the values of `others` whose types are missing here.
    pub(crate) fn or(mut self, others: &Self) -> Self {
        let values = Arc::make_mut(&mut self.values);
        for (id, value) in &*others.values {
            values.entry(*id).or_insert_with(|| value.clone());
        }
        self
    }

    /// Returns the value of type `T`.
    pub fn get<T: Send + Sync + 'static>(&self) -> Result<Dep<T>, AgentError> {
        let value = self.values.get(&TypeId::of::<T>()).cloned();
        let value = value.and_then(|it| it.downcast().ok());
        value.map(Dep).ok_or_else(|| {
            let name = type_name::<T>();
            AgentError::value(format!(
                "no dependency of type `{name}`; add one with the method `dependency` of the agent"
            ))
        })
    }
}

impl fmt::Debug for Dependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dependencies").field("n_values", &self.values.len()).finish()
    }
}

/// A dependency of a tool. Dereferences to the value. If a function with the attribute [`tool`](macro@crate::tool) has
/// a parameter of this type, the agent fills it in, and the model does not see it.
///
/// ```
/// use graph_agents::{Agent, AiMessage, Dep, ScriptedModel, ToolCall, tool};
/// use serde_json::json;
///
/// struct Prices(u32);
///
/// /// Returns the price of a book.
/// #[tool]
/// async fn price(title: String, prices: Dep<Prices>) -> String {
///     format!("{title} costs {}", prices.0)
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let call = ToolCall::new("price", json!({"title": "Emma"}), "call-1");
/// let model = || ScriptedModel::new([AiMessage::new("").tool_call(call.clone()), AiMessage::new("ok")]);
/// let outcome = Agent::new(model()).tools([price()]).dependency(Prices(9)).compile()?.run("hi").await?;
/// assert_eq!(outcome.messages[2].text(), "Emma costs 9");
/// // A missing dependency is found when the agent is compiled.
/// assert!(Agent::new(model()).tools([price()]).compile().is_err());
/// # Ok(()) }
/// ```
pub struct Dep<T>(Arc<T>);

impl<T> Clone for Dep<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Dep<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Dep<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The value may contain secrets.
        write!(f, "Dep<{}>", type_name::<T>())
    }
}

/// Checks that a dependency of type `T` exists.
pub(crate) type DependencyCheck = fn(&Dependencies) -> Result<(), AgentError>;

/// Returns the check for a dependency of type `T`.
pub(crate) fn check<T: Send + Sync + 'static>() -> DependencyCheck {
    |dependencies| dependencies.get::<T>().map(drop)
}
