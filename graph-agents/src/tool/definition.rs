//! Definition of a tool.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use graph_core::NodeError;
use serde_json::{Map, Value, json};

use super::{
    cache::ToolCache,
    errors::{ExceptionAnswer, ToolErrors},
    output::{IntoToolOutput, ToolArgument, ToolOutput},
    policy::Policy,
    runtime::ToolRuntime,
    schema,
};
use crate::{
    AgentError,
    dependencies::{self, Dependencies, DependencyCheck},
    message::Content,
    retry::RetryOptions,
};

type Body = Arc<
    dyn Fn(Map<String, Value>, ToolRuntime) -> BoxFuture<'static, Result<ToolOutput, NodeError>>
        + Send
        + Sync,
>;

/// A tool that a model can call. Cheap to clone.
///
/// The attribute macro [`tool`](macro@crate::tool) creates one from an async function. [`Tool::new`] creates one from a
/// closure, and [`Tool::dynamic`] one whose schema is known only at run time.
///
/// ```
/// use graph_agents::Tool;
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add { a: i64, b: i64 }
///
/// let add = Tool::new("add", "Adds two numbers.", |args: Add, _| async move { args.a + args.b });
/// assert_eq!(add.name(), "add");
/// ```
#[derive(Clone)]
#[must_use]
pub struct Tool {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    name: String,
    description: String,
    schema: Arc<Value>,
    injected: Vec<Injected>,
    return_direct: bool,
    strict: bool,
    exceptions: Option<ExceptionAnswer>,
    reads_state: bool,
    hands_off: bool,
    /// Name of the agent that a handoff leads to, if it is known before the call.
    destination: Option<String>,
    policy: Policy,
    dependencies: Vec<DependencyCheck>,
    body: Body,
}

/// An argument that is filled in from the state. The model does not see it and cannot set it.
#[derive(Clone, Debug)]
struct Injected {
    arg: String,
    field: String,
    default: Option<Value>,
}

impl Tool {
    /// Creates a tool from an async function. The schema of its arguments is the JSON Schema of `A`.
    pub fn new<A, F, Fut, R, M>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: F,
    ) -> Self
    where
        A: ToolArgument,
        F: Fn(A, ToolRuntime) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoToolOutput<M>,
    {
        let name = name.into();
        let schema = schemars::schema_for!(A).to_value();
        let function = Arc::new(function);
        let tool = name.clone();
        Self::from_body(
            name,
            description.into(),
            schema,
            Arc::new(move |args, runtime| {
                let (function, tool) = (function.clone(), tool.clone());
                Box::pin(async move {
                    let args = A::deserialize(Value::Object(args)).map_err(|error| {
                        AgentError::named(
                            AgentError::TOOL_INVOCATION,
                            format!(
                                "the arguments of tool `{tool}` do not match its type: {error}"
                            ),
                        )
                    })?;
                    function(args, runtime).await.into_tool_output()
                })
            }),
        )
    }

    /// Creates a tool whose arguments are described by a JSON Schema, for tools that are found at run time.
    ///
    /// The function receives the arguments after validation: with coerced types, with defaults, and without unknown
    /// arguments.
    pub fn dynamic<F, Fut, R, M>(
        name: impl Into<String>,
        description: impl Into<String>,
        schema: Value,
        function: F,
    ) -> Self
    where
        F: Fn(Map<String, Value>, ToolRuntime) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoToolOutput<M>,
    {
        let body: Body = Arc::new(move |args, runtime| {
            let future = function(args, runtime);
            Box::pin(async move { future.await.into_tool_output() })
        });
        Self::from_body(name.into(), description.into(), schema, body)
    }

    fn from_body(name: String, description: String, schema: Value, body: Body) -> Self {
        let inner = Inner {
            name,
            description,
            schema: Arc::new(without_metadata(schema)),
            injected: Vec::new(),
            return_direct: false,
            strict: false,
            exceptions: None,
            reads_state: true,
            hands_off: false,
            destination: None,
            policy: Policy::default(),
            dependencies: Vec::new(),
            body,
        };
        Self { inner: Arc::new(inner) }
    }

    fn edit(mut self, edit: impl FnOnce(&mut Inner)) -> Self {
        edit(Arc::make_mut(&mut self.inner));
        self
    }

    /// Fills an argument from a field of the state. The call fails if the field has no value.
    pub fn inject(self, arg: impl Into<String>, field: impl Into<String>) -> Self {
        let injected = Injected { arg: arg.into(), field: field.into(), default: None };
        self.edit(|it| it.injected.push(injected))
    }

    /// Fills an argument from a field of the state, or with `default` if the field has no value.
    pub fn inject_or(
        self,
        arg: impl Into<String>,
        field: impl Into<String>,
        default: Value,
    ) -> Self {
        let injected = Injected { arg: arg.into(), field: field.into(), default: Some(default) };
        self.edit(|it| it.injected.push(injected))
    }

    /// Ends the agent's loop after this tool. The loop continues if the same message also calls a tool without this
    /// setting.
    pub fn return_direct(self) -> Self {
        self.edit(|it| it.return_direct = true)
    }

    /// Asks the provider to restrict the model's arguments to the schema; see [`llm::Tool::strict`]. The agent
    /// validates the arguments in any case.
    ///
    /// ```
    /// use graph_agents::{Agent, LlmModel, tool};
    /// use llm::{Llm, Request, Scripted};
    ///
    /// /// Adds two numbers.
    /// #[tool(strict)]
    /// async fn add(a: i64, b: i64) -> i64 {
    ///     a + b
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = Scripted::new("m", |it: &Request| format!("strict: {}", it.tools[0].strict));
    /// let agent = Agent::new(LlmModel::new(Llm::new(model))).tools([add()]).compile()?;
    /// assert_eq!(agent.run("Hi").await?.text(), "strict: true");
    /// # Ok(()) }
    /// ```
    pub fn strict(self) -> Self {
        self.edit(|it| it.strict = true)
    }

    /// Returns the tool's [`AgentError::tool`] errors to the model as the result of the call. Other errors are not
    /// affected.
    pub fn handle_exceptions(self, answer: ExceptionAnswer) -> Self {
        self.edit(|it| it.exceptions = Some(answer))
    }

    /// Sets whether the tool reads the state. An agent stores the state with every call to a tool that reads it. Other
    /// tools get an empty state, unless middleware wraps the calls.
    pub fn reads_state(self, reads: bool) -> Self {
        self.edit(|it| it.reads_state = reads)
    }

    /// Declares that the tool needs a dependency of type `T`. Compiling an agent without it fails.
    pub fn requires<T: Send + Sync + 'static>(self) -> Self {
        self.edit(|it| it.dependencies.push(dependencies::check::<T>()))
    }

    /// Sets whether the tool hands the conversation to another agent, or ends the run, with a command to the parent
    /// graph.
    ///
    /// In an agent, such a call runs after all other calls of the same message, so that their results are kept. If a
    /// message contains several such calls, the first that succeeds wins, and the others are answered with an error.
    pub fn hands_off(self, hands_off: bool) -> Self {
        self.edit(|it| it.hands_off = hands_off)
    }

    /// Declares the node of the parent graph that a handoff leads to, for validation and drawings.
    pub(crate) fn leads_to(self, agent: String) -> Self {
        self.edit(|it| it.destination = Some(agent))
    }

    pub(crate) fn destination(&self) -> Option<&str> {
        self.inner.destination.as_deref()
    }

    /// Fails an attempt that takes longer than `limit`.
    pub fn timeout(self, limit: Duration) -> Self {
        self.edit(|it| it.policy.timeout = Some(limit))
    }

    /// Retries failed calls to this tool.
    pub fn retry(self, options: RetryOptions) -> Self {
        self.edit(|it| it.policy.retry = Some(options))
    }

    /// Returns the cached result of an earlier call with the same arguments instead of running the tool.
    pub fn cache(self, cache: ToolCache) -> Self {
        self.edit(|it| it.policy.cache = Some(cache))
    }

    /// Sets which errors of this tool are answered with a message to the model. Overrides the setting of the tool node.
    pub fn errors(self, errors: ToolErrors) -> Self {
        self.edit(|it| it.policy.errors = Some(errors))
    }

    /// Sets the maximum number of characters that the model sees of a result, of an error, and of each message that a
    /// command of the tool adds. Longer text is truncated, with a note. The default is 100,000. Artifacts are not
    /// affected.
    pub fn max_output(self, characters: usize) -> Self {
        self.edit(|it| it.policy.max_output = characters)
    }

    /// Encloses results, errors and messages that commands add in tags that mark them as untrusted data. Use it for
    /// tools that return text from third parties, such as web pages. Messages about invalid arguments are not marked.
    /// Text files are converted to text, and the names of images and other files are removed.
    pub fn untrusted(self) -> Self {
        self.edit(|it| it.policy.untrusted = true)
    }

    /// Removes the mark that [`untrusted`](Self::untrusted) adds. The tools of this crate that run programs, read files
    /// of the host or call MCP servers are untrusted by default.
    pub fn trusted(self) -> Self {
        self.edit(|it| it.policy.untrusted = false)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the description for the model.
    pub fn description(&self) -> &str {
        &self.inner.description
    }

    /// Returns the JSON Schema of the arguments that the model sees.
    pub fn schema(&self) -> &Value {
        &self.inner.schema
    }

    pub(crate) fn shared_schema(&self) -> Arc<Value> {
        self.inner.schema.clone()
    }

    /// Returns whether the tool ends the agent's loop.
    pub fn is_return_direct(&self) -> bool {
        self.inner.return_direct
    }

    /// Returns whether [`strict`](Self::strict) is set.
    pub fn is_strict(&self) -> bool {
        self.inner.strict
    }

    /// Returns whether the tool reads the state.
    pub(crate) fn needs_state(&self) -> bool {
        self.inner.reads_state || !self.inner.injected.is_empty()
    }

    /// Returns the arguments that are filled in from the state.
    pub(crate) fn injected_args(
        &self,
        runtime: &ToolRuntime,
    ) -> Result<Map<String, Value>, AgentError> {
        let value = |it: &Injected| {
            let value = runtime.state().get(&it.field).cloned().or_else(|| it.default.clone());
            let value = value.ok_or_else(|| AgentError::named("KeyError", it.field.clone()))?;
            Ok((it.arg.clone(), value))
        };
        self.inner.injected.iter().map(value).collect()
    }

    /// Validates the model's arguments. Injected arguments are not checked, because the schema does not contain them.
    pub(crate) fn check_args(
        &self,
        args: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Vec<schema::Fault>> {
        schema::check(&self.inner.schema, args)
    }

    /// Checks that the tool's dependencies exist.
    pub(crate) fn check_dependencies(&self, given: &Dependencies) -> Result<(), AgentError> {
        self.inner.dependencies.iter().try_for_each(|check| check(given)).map_err(|error| {
            AgentError::value(format!("tool `{}` cannot run: {error}", self.name()))
        })
    }

    /// Returns whether the tool hands the conversation to another agent.
    pub(crate) fn is_handoff(&self) -> bool {
        self.inner.hands_off
    }

    /// Returns the error policy of the tool, if it has one.
    pub(crate) fn error_policy(&self) -> Option<&ToolErrors> {
        self.inner.policy.errors.as_ref()
    }

    /// Truncates a text without marking it as untrusted. Used for texts that this program has written.
    pub(crate) fn truncate(&self, content: Content) -> Content {
        self.inner.policy.truncate(content)
    }

    /// Truncates and marks a result for the model.
    pub(crate) fn limit(&self, content: Content) -> Content {
        self.inner.policy.limit(content, self.name())
    }

    /// Runs the tool with validated arguments.
    pub(crate) async fn run(
        &self,
        args: Map<String, Value>,
        runtime: ToolRuntime,
    ) -> Result<ToolOutput, NodeError> {
        let attempt = || (self.inner.body)(args.clone(), runtime.clone());
        self.inner.policy.run(runtime.call(), &args, attempt).await
    }

    /// Returns the text that answers an error, if [`handle_exceptions`](Self::handle_exceptions) applies to the error.
    pub(crate) fn answer_exception(&self, error: &NodeError) -> Option<String> {
        let error = error.downcast_ref::<AgentError>()?;
        if error.name() != AgentError::TOOL_EXCEPTION {
            return None;
        }
        Some(match self.inner.exceptions.as_ref()? {
            ExceptionAnswer::Message => error.message().to_owned(),
            ExceptionAnswer::Text(text) => text.clone(),
            ExceptionAnswer::With(answer) => answer(error.message()),
        })
    }
}

/// Removes the keys of a generated schema that mean nothing to a model.
fn without_metadata(mut schema: Value) -> Value {
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        object.remove("title");
        object.entry("type").or_insert_with(|| json!("object"));
        object.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.name())
            .field("schema", &self.schema())
            .finish_non_exhaustive()
    }
}
