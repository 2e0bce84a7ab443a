//! Nodes, branches and subgraphs of dynamic graphs.

use std::{collections::BTreeMap, fmt, future::Future, marker::PhantomData, sync::Arc};

use serde_json::{Map, Value};

use super::{JsonFieldKind, JsonState, JsonStateSchema, JsonUpdate};
use crate::{
    Command, CompiledGraph, Context, NodeError,
    command::{Goto, Gotos, Payload, RouteTarget},
    context::TaskContext,
    engine::RunInput,
    graph::{Graph, RouteCall, Router},
    label::{END_NAME, Label},
    node::{
        BoxFuture, ErasedNode, IntoNodeOutput, NodeBody, NodeOutput, Private, TaskInput,
        options::{IntoErrorHandler, IntoNode, NodeOptions, NodeParts},
    },
    state::{FieldError, erased::AnyState},
    subgraph::{self, Persistence, SubgraphNode},
};

/// The input of a node or branch of a dynamic graph.
#[derive(Clone, Debug)]
pub struct JsonInput {
    source: Source,
    reads: Option<Arc<Vec<String>>>,
    computed: Map<String, Value>,
    /// Values that the branch's node returned and that are not visible in the state. Empty in the input of a node.
    extra: Map<String, Value>,
}

#[derive(Clone, Debug)]
enum Source {
    State(Arc<JsonState>),
    Payload(Arc<Value>),
}

impl JsonInput {
    /// Returns a field of the state, or of the payload that was sent to the node.
    pub fn get(&self, field: &str) -> Option<&Value> {
        let own = match &self.source {
            Source::Payload(payload) => return payload.get(field),
            Source::State(state) if self.is_visible(field) => state.get(field),
            Source::State(_) => None,
        };
        own.or_else(|| self.computed.get(field)).or_else(|| self.extra.get(field))
    }

    /// Returns the whole input: the fields that have a value as an object, or the payload.
    pub fn to_value(&self) -> Value {
        match &self.source {
            Source::Payload(payload) => Value::clone(payload),
            Source::State(state) => {
                let Value::Object(mut all) = state.object(|it| self.is_visible(&it.name)) else {
                    return Value::Null;
                };
                all.extend(self.computed.clone());
                all.extend(self.extra.clone());
                Value::Object(all)
            }
        }
    }

    fn is_visible(&self, field: &str) -> bool {
        self.reads.as_ref().is_none_or(|reads| reads.iter().any(|it| it == field))
    }

    fn of_state(state: Arc<JsonState>, reads: Option<Arc<Vec<String>>>, remaining: i64) -> Self {
        let mut computed = Map::new();
        for (name, kind) in &state.schema.inner.computed {
            if reads.as_ref().is_none_or(|reads| reads.contains(name)) {
                let value = match kind {
                    JsonFieldKind::IsLastStep => Value::from(remaining == 1),
                    _ => Value::from(remaining),
                };
                computed.insert(name.clone(), value);
            }
        }
        Self { source: Source::State(state), reads, computed, extra: Map::new() }
    }
}

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
    Commands(Vec<Command<JsonState, Vec<Goto>>>),
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

impl From<Command<JsonState, Vec<Goto>>> for JsonReturn {
    fn from(command: Command<JsonState, Vec<Goto>>) -> Self {
        Self::Commands(vec![command])
    }
}

impl JsonReturn {
    fn into_node_output(self, schema: &JsonStateSchema) -> Result<NodeOutput, NodeError> {
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
pub struct JsonNode<F, C> {
    name: Label,
    body: F,
    reads: Option<Arc<Vec<String>>>,
    deps: PhantomData<fn(C)>,
}

/// Creates a node of a dynamic graph from a name and an async function that takes the node's input and context.
pub fn json_node<F, C, Fut, R>(name: impl Into<String>, body: F) -> JsonNode<F, C>
where
    F: Fn(JsonInput, Context<C>) -> Fut + Send + Sync + 'static,
    C: Send + Sync + 'static,
    Fut: Future<Output = Result<R, NodeError>> + Send + 'static,
    R: Into<JsonReturn>,
{
    JsonNode { name: Label::from(name.into()), body, reads: None, deps: PhantomData }
}

impl<F, C> JsonNode<F, C> {
    /// Restricts which fields of the state the node sees.
    #[must_use]
    pub fn reads<N: Into<String>>(mut self, fields: impl IntoIterator<Item = N>) -> Self {
        self.reads = Some(Arc::new(fields.into_iter().map(Into::into).collect()));
        self
    }
}

impl<F, C> fmt::Debug for JsonNode<F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonNode").field("name", &self.name).finish_non_exhaustive()
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsJson;

impl<F, C, Fut, R> IntoNode<JsonState, C, (IsJson, Fut, R)> for JsonNode<F, C>
where
    F: Fn(JsonInput, Context<C>) -> Fut + Send + Sync + 'static,
    C: Send + Sync + 'static,
    Fut: Future<Output = Result<R, NodeError>> + Send + 'static,
    R: Into<JsonReturn>,
{
    fn into_node(self, _: Private) -> NodeParts {
        let body = self.body;
        let call = move |input: JsonInput, cx: &Arc<TaskContext>| {
            let schema = schema_of(&cx.scope.graph);
            let future = body(input, Context::<C>::new(cx.clone()));
            Box::pin(async move { future.await?.into().into_node_output(&schema) })
                as BoxFuture<Result<NodeOutput, NodeError>>
        };
        NodeParts {
            label: Some(self.name),
            node: NodeBody(Arc::new(Body { call, reads: self.reads })),
            // The targets of a dynamic node's commands are only known at run time.
            targets: None,
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

/// Converts a task's input into the input of a dynamic node, or returns `None` if the payload cannot be serialised.
fn json_input(
    input: &TaskInput,
    reads: Option<Arc<Vec<String>>>,
    cx: &TaskContext,
) -> Option<JsonInput> {
    match input {
        TaskInput::State(state) => {
            let state = state.clone().downcast::<JsonState>().ok()?;
            Some(JsonInput::of_state(state, reads, cx.max_step - cx.step))
        }
        TaskInput::Payload(payload) => payload_input(payload),
    }
}

fn payload_input(payload: &Payload) -> Option<JsonInput> {
    let payload = match payload {
        Payload::Json(value) => value.clone(),
        typed @ Payload::Typed(_) => Arc::new(typed.to_json().ok()?),
    };
    Some(JsonInput {
        source: Source::Payload(payload),
        reads: None,
        computed: Map::new(),
        extra: Map::new(),
    })
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

fn schema_of(graph: &Graph) -> JsonStateSchema {
    let state = graph.initial.snapshot().downcast::<JsonState>();
    state.expect("the graph of a JSON node has a JSON state").schema.clone()
}

/// A conditional edge of a dynamic graph.
pub struct JsonBranch {
    name: Label,
    route: Arc<dyn Fn(&JsonInput) -> Result<Vec<Goto>, NodeError> + Send + Sync>,
    destinations: Option<Vec<String>>,
    path_map: Option<BTreeMap<String, String>>,
}

impl JsonBranch {
    /// Creates a branch with a name and the function that chooses the nodes to run next.
    pub fn new(
        name: impl Into<String>,
        route: impl Fn(&JsonInput) -> Result<Vec<Goto>, NodeError> + Send + Sync + 'static,
    ) -> Self {
        let name = Label::from(name.into());
        Self { name, route: Arc::new(route), destinations: None, path_map: None }
    }

    /// Declares the nodes that the branch can lead to, for validation and drawings.
    #[must_use]
    pub fn destinations<N: Into<String>>(
        mut self,
        destinations: impl IntoIterator<Item = N>,
    ) -> Self {
        self.destinations = Some(destinations.into_iter().map(Into::into).collect());
        self
    }

    /// Maps the labels that the function returns to nodes, like LangGraph's `path_map`.
    #[must_use]
    pub fn path_map<K: Into<String>, V: Into<String>>(
        mut self,
        path_map: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let entries = path_map.into_iter().map(|(label, to)| (label.into(), to.into()));
        self.path_map = Some(entries.collect());
        self
    }

    pub(crate) fn into_router(self) -> Router {
        let target = |label: &str, to: &str| RouteTarget {
            to: Label::from(to.to_owned()),
            variant: Label::from(label.to_owned()),
            sends: false,
        };
        let targets = match (&self.path_map, &self.destinations) {
            (Some(map), _) => Some(map.iter().map(|(label, to)| target(label, to)).collect()),
            (None, Some(nodes)) => Some(nodes.iter().map(|it| target(it, it)).collect()),
            (None, None) => None,
        };
        let (route, path_map) = (self.route, self.path_map);
        let run = move |call: &RouteCall<'_>| -> Result<Gotos, NodeError> {
            let gotos = route(&branch_input(call))?;
            gotos.into_iter().map(|it| apply_path_map(it, path_map.as_ref())).collect()
        };
        Router { name: self.name, targets, exclusive: false, route: Arc::new(run) }
    }
}

impl fmt::Debug for JsonBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonBranch").field("name", &self.name).finish_non_exhaustive()
    }
}

fn branch_input(call: &RouteCall<'_>) -> JsonInput {
    let state = call.state.snapshot().downcast::<JsonState>();
    let state = state.expect("the graph of a JSON branch has a JSON state");
    let mut input = JsonInput::of_state(state, call.reads.cloned(), call.remaining);
    for update in call.updates.iter().filter_map(|it| it.downcast_ref::<JsonUpdate>()) {
        input.extra.extend(update.extra.clone());
        for (field, value, _) in &update.writes {
            let fields = update.schema.as_ref().map(|it| &it.inner.fields);
            let Some(name) = fields.map(|it| &it[*field].name) else { continue };
            // If the node wrote a field that it cannot read, the branch sees the written value, not the reduced one.
            if !input.is_visible(name) {
                input.extra.insert(name.clone().into_owned(), value.clone());
            }
        }
    }
    input
}

fn apply_path_map(
    goto: Goto,
    path_map: Option<&BTreeMap<String, String>>,
) -> Result<Goto, NodeError> {
    match path_map {
        Some(map) if goto.payload.is_none() && goto.to.as_str() != END_NAME => {
            match map.get(goto.to.as_str()) {
                Some(to) => Ok(Goto::node(to.clone())),
                None => Err(NodeError::terminal(UnknownLabelError {
                    label: goto.to.to_string(),
                    known: map.keys().cloned().collect(),
                })),
            }
        }
        _ => Ok(goto),
    }
}

/// The error returned when a branch returns a label that its path map does not contain.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "the branch returned the label `{label}`, which its path map does not contain; the labels are {}",
    known.join(", ")
)]
pub struct UnknownLabelError {
    /// The unknown label.
    pub label: String,
    /// The labels of the path map.
    pub known: Vec<String>,
}

/// Creates a node that runs a graph with a JSON state. Fields are passed in and out by name.
///
/// The output of the subgraph is an update of the parent's state, so the parent's reducers apply to it.
pub fn json_subgraph<C: Send + Sync + 'static>(
    name: impl Into<String>,
    graph: &CompiledGraph<JsonState, C>,
    persistence: Persistence,
) -> SubgraphNode<JsonState, C> {
    let child = schema_of(graph.erased());
    let input = move |input: TaskInput, cx: &TaskContext| {
        let value = json_input(&input, None, cx).map(|it| it.to_value()).unwrap_or_default();
        let mut update = JsonUpdate::from_value(&child, value).map_err(NodeError::terminal)?;
        update.writes.retain(|write| child.inner.fields[write.0].input);
        Ok(RunInput::Fresh(Box::new(update)))
    };
    let output = |state: AnyState, cx: &TaskContext| {
        let state: JsonState = subgraph::downcast_state(state);
        JsonReturn::Value(state.to_value()).into_node_output(&schema_of(&cx.scope.graph))
    };
    let input_json =
        |input: &TaskInput, cx: &TaskContext| json_input(input, None, cx).map(|it| it.to_value());
    SubgraphNode::erased(name.into(), graph, input, output, input_json).persistence(persistence)
}
