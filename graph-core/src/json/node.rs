//! Nodes of dynamic graphs.

use std::{fmt, future::Future, marker::PhantomData, sync::Arc};

use serde_json::Value;

use crate::{
    command::{
        Command,
        route::{DeclaredTargets, RouteTarget},
    },
    context::{Context, task::TaskContext},
    error::NodeError,
    goto::Goto,
    graph::into_node::{IntoErrorHandler, IntoNode, NodeParts, NodeShape},
    json::{
        input::{JsonInput, json_input},
        state::{JsonState, JsonStateSchema, JsonUpdate},
    },
    label::Label,
    node::{
        erased::{BoxFuture, ErasedNode, NodeBody, Private, TaskInput},
        options::NodeOptions,
        output::{IntoNodeOutput, NodeOutput},
    },
    state::field::FieldError,
};

/// A command of a node of a dynamic graph. Its targets, in its own graph or in the parent, are only known at run time.
pub type JsonCommand = Command<JsonState, Vec<Goto>, Vec<Goto>>;

/// The return value of a node of a dynamic graph.
#[derive(Debug)]
#[non_exhaustive]
pub enum JsonReturn {
    /// No update.
    Nothing,
    /// An update as a JSON object.
    Value(Value),
    /// An update as a [`JsonUpdate`].
    Update(JsonUpdate),
    /// One or more commands.
    Commands(Vec<JsonCommand>),
}

impl From<()> for JsonReturn {
    fn from((): ()) -> Self {
        Self::Nothing
    }
}

impl From<Value> for JsonReturn {
    fn from(value: Value) -> Self {
        if value.is_null() { Self::Nothing } else { Self::Value(value) }
    }
}

impl From<JsonUpdate> for JsonReturn {
    fn from(update: JsonUpdate) -> Self {
        Self::Update(update)
    }
}

impl From<JsonCommand> for JsonReturn {
    fn from(command: JsonCommand) -> Self {
        Self::Commands(vec![command])
    }
}

impl JsonReturn {
    pub(super) fn into_node_output(
        self,
        schema: &JsonStateSchema,
    ) -> Result<NodeOutput, NodeError> {
        match self {
            Self::Nothing => Ok(NodeOutput::default()),
            Self::Value(value) => JsonUpdate::from_value(schema, value)
                .map_err(NodeError::terminal)?
                .into_node_output(),
            Self::Update(update) => update.into_node_output(),
            Self::Commands(commands) => commands.into_node_output(),
        }
    }
}

/// A node of a dynamic graph: see [`json_node`].
#[must_use]
pub struct JsonNode<F, C> {
    name: Label,
    body: F,
    reads: Option<Arc<Vec<String>>>,
    destinations: Option<Vec<String>>,
    parent_destinations: Option<Vec<String>>,
    deps: PhantomData<fn(C)>,
}

/// Creates a node of a dynamic graph from a name and an async function that takes the node's input and context.
///
/// ```
/// use graph_core::{JsonFieldKind, JsonStateSchema, START, json_node};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schema = JsonStateSchema::new([("name", JsonFieldKind::Last), ("log", JsonFieldKind::Append)])?;
/// let greet = json_node("greet", |input, _| async move { Ok(json!({ "log": [input.get("name")] })) });
/// let graph = schema.graph().node(greet).edge(START, "greet").compile()?;
/// let state = graph.invoke(schema.input(json!({ "name": "Ada" }))?, ()).await?;
/// assert_eq!(state.to_value(), json!({ "name": "Ada", "log": ["Ada"] }));
/// # Ok(()) }
/// ```
pub fn json_node<F, C, Fut, R>(name: impl Into<String>, body: F) -> JsonNode<F, C>
where
    F: Fn(JsonInput, Context<C>) -> Fut + Send + Sync + 'static,
    C: Send + Sync + 'static,
    Fut: Future<Output = Result<R, NodeError>> + Send + 'static,
    R: Into<JsonReturn>,
{
    let name = Label::from(name.into());
    JsonNode {
        name,
        body,
        reads: None,
        destinations: None,
        parent_destinations: None,
        deps: PhantomData,
    }
}

impl<F, C> JsonNode<F, C> {
    /// Restricts which fields of the state the node sees.
    pub fn reads<N: Into<String>>(mut self, fields: impl IntoIterator<Item = N>) -> Self {
        self.reads = Some(Arc::new(fields.into_iter().map(Into::into).collect()));
        self
    }

    /// Declares the nodes that the node's commands can lead to, for validation and drawings.
    pub fn destinations<N: Into<String>>(
        mut self,
        destinations: impl IntoIterator<Item = N>,
    ) -> Self {
        self.destinations = Some(destinations.into_iter().map(Into::into).collect());
        self
    }

    /// Declares the nodes of the parent graph that the node's commands to the parent can lead to, for validation and
    /// drawings of the parent. Without a declaration, these nodes are only known at run time.
    pub fn parent_destinations<N: Into<String>>(
        mut self,
        destinations: impl IntoIterator<Item = N>,
    ) -> Self {
        self.parent_destinations = Some(destinations.into_iter().map(Into::into).collect());
        self
    }
}

impl<F, C> fmt::Debug for JsonNode<F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonNode").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Returns the targets of commands that lead to these nodes.
fn targets(nodes: Vec<String>) -> Vec<RouteTarget> {
    let labels = nodes.into_iter().map(Label::from);
    labels.map(|to| RouteTarget { variant: to.clone(), to, sends: false }).collect()
}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsJson;

#[diagnostic::do_not_recommend]
impl<F, C, Fut, R> NodeShape<JsonState, C, (IsJson, Fut, R)> for JsonNode<F, C>
where
    F: Fn(JsonInput, Context<C>) -> Fut,
{
    type Checked = Self;
}

#[diagnostic::do_not_recommend]
impl<F, C, Fut, R> IntoNode<JsonState, C, (IsJson, Fut, R)> for JsonNode<F, C>
where
    F: Fn(JsonInput, Context<C>) -> Fut + Send + Sync + 'static,
    C: Send + Sync + 'static,
    Fut: Future<Output = Result<R, NodeError>> + Send + 'static,
    R: Into<JsonReturn>,
{
    type Input = JsonState;

    fn into_node(self, _: Private) -> NodeParts {
        let body = self.body;
        let call = move |input: JsonInput, cx: &Arc<TaskContext>| {
            let schema = JsonStateSchema::of(&cx.scope.initial);
            let future = body(input, Context::<C>::new(cx.clone()));
            Box::pin(async move { future.await?.into().into_node_output(&schema) })
                as BoxFuture<Result<NodeOutput, NodeError>>
        };
        NodeParts {
            label: Some(self.name),
            body: NodeBody(Arc::new(Body { call, reads: self.reads })),
            subgraph: None,
            // Without a declaration, the targets of a dynamic node's commands are only known at run time.
            targets: DeclaredTargets {
                own: self.destinations.map(targets),
                parent: self.parent_destinations.map(targets),
            },
            options: NodeOptions::default(),
        }
    }
}

impl<F, C, Fut, R> IntoErrorHandler<JsonState, C, (IsJson, Fut, R)> for JsonNode<F, C>
where
    F: Fn(JsonInput, Context<C>) -> Fut + Send + Sync + 'static,
    C: Send + Sync + 'static,
    Fut: Future<Output = Result<R, NodeError>> + Send + 'static,
    R: Into<JsonReturn>,
{
    fn into_error_handler(self, private: Private) -> Option<NodeParts> {
        Some(self.into_node(private))
    }
}

struct Body<F> {
    call: F,
    reads: Option<Arc<Vec<String>>>,
}

impl<F> ErasedNode for Body<F>
where
    F: Fn(JsonInput, &Arc<TaskContext>) -> BoxFuture<Result<NodeOutput, NodeError>> + Send + Sync,
{
    fn call(
        &self,
        input: TaskInput,
        cx: &Arc<TaskContext>,
    ) -> BoxFuture<Result<NodeOutput, NodeError>> {
        match json_input(&input, self.reads.clone(), cx) {
            Some(input) => (self.call)(input, cx),
            None => {
                let problem = FieldError::new("*", "the node's input cannot be serialised to JSON");
                Box::pin(async move { Err(NodeError::terminal(problem)) })
            }
        }
    }

    fn input_json(&self, input: &TaskInput, cx: &TaskContext) -> Option<Value> {
        json_input(input, self.reads.clone(), cx).map(|it| it.to_value())
    }

    fn reads(&self) -> Option<Arc<Vec<String>>> {
        self.reads.clone()
    }
}
