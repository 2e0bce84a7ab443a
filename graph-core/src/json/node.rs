//! Nodes, branches and subgraphs of dynamic graphs.

use std::{collections::BTreeMap, fmt, future::Future, marker::PhantomData, sync::Arc};

use serde_json::{Map, Value};

use super::{JsonKind, JsonSchema, JsonState, JsonUpdate};
use crate::{
    Command, CompiledGraph, Context, NodeError,
    command::{Goto, Gotos, Payload, RouteTarget},
    context::TaskContext,
    engine::RunInput,
    graph::{Graph, RouteCall, Router},
    label::{END_NAME, Label},
    node::{
        BoxFuture, ErasedNode, IntoOutcome, NodeBody, Outcome, Private, TaskInput,
        options::{Handler, IntoNode, NodeOptions, NodeParts},
    },
    state::{FieldError, erased::AnyState},
    subgraph::{self, Persistence, SubgraphNode},
};

/// What a node or a branch of a dynamic graph reads.
#[derive(Clone, Debug)]
pub struct JsonInput {
    source: Source,
    reads: Option<Arc<Vec<String>>>,
    computed: Map<String, Value>,
    /// What the branch's own node returned beyond the state's fields.
    extra: Map<String, Value>,
}

#[derive(Clone, Debug)]
enum Source {
    State(Arc<JsonState>),
    Payload(Arc<Value>),
}

impl JsonInput {
    /// A field of the state, or of the payload the node was sent.
    pub fn get(&self, field: &str) -> Option<&Value> {
        let own = match &self.source {
            Source::Payload(payload) => return payload.get(field),
            Source::State(state) if self.shows(field) => state.get(field),
            Source::State(_) => None,
        };
        own.or_else(|| self.computed.get(field)).or_else(|| self.extra.get(field))
    }

    /// The whole input: an object of the fields that have a value, or the payload.
    pub fn to_value(&self) -> Value {
        match &self.source {
            Source::Payload(payload) => Value::clone(payload),
            Source::State(state) => {
                let Value::Object(mut all) = state.object(|it| self.shows(&it.name)) else {
                    return Value::Null;
                };
                all.extend(self.computed.clone());
                all.extend(self.extra.clone());
                Value::Object(all)
            }
        }
    }

    fn shows(&self, field: &str) -> bool {
        self.reads.as_ref().is_none_or(|reads| reads.iter().any(|it| it == field))
    }

    fn of_state(state: Arc<JsonState>, reads: Option<Arc<Vec<String>>>, remaining: i64) -> Self {
        let mut computed = Map::new();
        for (name, kind) in &state.schema.shared.computed {
            if reads.as_ref().is_none_or(|reads| reads.contains(name)) {
                let value = match kind {
                    JsonKind::IsLastStep => Value::from(remaining == 1),
                    _ => Value::from(remaining),
                };
                computed.insert(name.clone(), value);
            }
        }
        Self { source: Source::State(state), reads, computed, extra: Map::new() }
    }
}

/// What a node of a dynamic graph returns.
#[derive(Debug)]
#[non_exhaustive]
pub enum JsonReturn {
    /// Nothing.
    Nothing,
    /// An update as a JSON object.
    Value(Value),
    /// An update.
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
    fn into_outcome(self, schema: &JsonSchema) -> Result<Outcome, NodeError> {
        match self {
            Self::Nothing => Ok(Outcome::default()),
            Self::Value(value) => {
                JsonUpdate::from_value(schema, value).map_err(NodeError::terminal)?.into_outcome()
            }
            Self::Update(update) => update.into_outcome(),
            Self::Commands(commands) => commands.into_outcome(),
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

/// A node of a dynamic graph: a name, and an async function of its input and context.
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
    /// Shows the node these fields of the state alone.
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
            Box::pin(async move { future.await?.into().into_outcome(&schema) })
                as BoxFuture<Result<Outcome, NodeError>>
        };
        NodeParts {
            label: Some(self.name),
            node: NodeBody(Arc::new(Body { call, reads: self.reads })),
            // A dynamic node may go anywhere.
            targets: None,
            options: NodeOptions::default(),
        }
    }
}

impl<F, C, Fut, R> Handler<JsonState, C, (IsJson, Fut, R)> for JsonNode<F, C>
where
    F: Fn(JsonInput, Context<C>) -> Fut + Send + Sync + 'static,
    C: Send + Sync + 'static,
    Fut: Future<Output = Result<R, NodeError>> + Send + 'static,
    R: Into<JsonReturn>,
{
    fn into_handler(self, private: Private) -> Option<NodeParts> {
        Some(self.into_node(private))
    }
}

struct Body<F> {
    call: F,
    reads: Option<Arc<Vec<String>>>,
}

/// What a task of a dynamic graph reads.
fn read(input: &TaskInput, reads: Option<Arc<Vec<String>>>, cx: &TaskContext) -> Option<JsonInput> {
    match input {
        TaskInput::State(state) => {
            let state = state.clone().downcast::<JsonState>().ok()?;
            Some(JsonInput::of_state(state, reads, cx.stop - cx.step))
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
    F: Fn(JsonInput, &Arc<TaskContext>) -> BoxFuture<Result<Outcome, NodeError>> + Send + Sync,
{
    fn call(
        &self,
        input: TaskInput,
        cx: &Arc<TaskContext>,
    ) -> BoxFuture<Result<Outcome, NodeError>> {
        match read(&input, self.reads.clone(), cx) {
            Some(input) => (self.call)(input, cx),
            None => {
                let problem = FieldError::new("*", "the node's input is no JSON");
                Box::pin(async move { Err(NodeError::terminal(problem)) })
            }
        }
    }

    fn describe(&self, input: &TaskInput, cx: &TaskContext) -> Option<Value> {
        read(input, self.reads.clone(), cx).map(|it| it.to_value())
    }

    fn reads(&self) -> Option<Arc<Vec<String>>> {
        self.reads.clone()
    }
}

fn schema_of(graph: &Graph) -> JsonSchema {
    let state = graph.initial.snapshot().downcast::<JsonState>();
    state.expect("a JSON node is only ever added to a graph over JSON state").schema.clone()
}

/// A conditional edge of a dynamic graph.
pub struct JsonBranch {
    name: Label,
    route: Arc<dyn Fn(&JsonInput) -> Result<Vec<Goto>, NodeError> + Send + Sync>,
    ends: Option<Vec<String>>,
    map: Option<BTreeMap<String, String>>,
}

impl JsonBranch {
    /// A branch with a name of its own and the function that chooses.
    pub fn new(
        name: impl Into<String>,
        route: impl Fn(&JsonInput) -> Result<Vec<Goto>, NodeError> + Send + Sync + 'static,
    ) -> Self {
        Self { name: Label::from(name.into()), route: Arc::new(route), ends: None, map: None }
    }

    /// Declares where the branch can lead, for `compile` to check and for drawings.
    #[must_use]
    pub fn ends<N: Into<String>>(mut self, ends: impl IntoIterator<Item = N>) -> Self {
        self.ends = Some(ends.into_iter().map(Into::into).collect());
        self
    }

    /// Makes the names that the function returns labels, which this map turns into nodes.
    #[must_use]
    pub fn map<K: Into<String>, V: Into<String>>(
        mut self,
        map: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.map = Some(map.into_iter().map(|(label, to)| (label.into(), to.into())).collect());
        self
    }

    pub(crate) fn into_router(self) -> Router {
        let target = |label: &str, to: &str| RouteTarget {
            to: Label::from(to.to_owned()),
            variant: Label::from(label.to_owned()),
            sends: false,
        };
        let targets = match (&self.map, &self.ends) {
            (Some(map), _) => Some(map.iter().map(|(label, to)| target(label, to)).collect()),
            (None, Some(ends)) => Some(ends.iter().map(|it| target(it, it)).collect()),
            (None, None) => None,
        };
        let (route, map) = (self.route, self.map);
        let run = move |call: &RouteCall<'_>| -> Result<Gotos, NodeError> {
            let gotos = route(&view(call))?;
            gotos.into_iter().map(|it| mapped(it, map.as_ref())).collect()
        };
        Router { name: self.name, targets, one_of: false, route: Arc::new(run) }
    }
}

impl fmt::Debug for JsonBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonBranch").field("name", &self.name).finish_non_exhaustive()
    }
}

fn view(call: &RouteCall<'_>) -> JsonInput {
    let state = call.state.snapshot().downcast::<JsonState>();
    let state = state.expect("a JSON branch is only ever added to a graph over JSON state");
    let mut input = JsonInput::of_state(state, call.reads.cloned(), call.remaining);
    for update in call.updates.iter().filter_map(|it| it.downcast_ref::<JsonUpdate>()) {
        input.extra.extend(update.extra.clone());
        for (field, value, _) in &update.writes {
            let fields = update.schema.as_ref().map(|it| &it.shared.fields);
            let Some(name) = fields.map(|it| &it[*field].name) else { continue };
            // What the node wrote beside the fields it reads is seen as it was written.
            if !input.shows(name) {
                input.extra.insert(name.clone().into_owned(), value.clone());
            }
        }
    }
    input
}

fn mapped(goto: Goto, map: Option<&BTreeMap<String, String>>) -> Result<Goto, NodeError> {
    match map {
        Some(map) if goto.payload.is_none() && goto.to.as_str() != END_NAME => {
            match map.get(goto.to.as_str()) {
                Some(to) => Ok(Goto::node(to.clone())),
                None => Err(NodeError::terminal(UnknownLabel {
                    label: goto.to.to_string(),
                    known: map.keys().cloned().collect(),
                })),
            }
        }
        _ => Ok(goto),
    }
}

/// A branch answered a label that its map lacks.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the branch answered `{label}`, which its map lacks; labels are: {}", known.join(", "))]
pub struct UnknownLabel {
    /// The label.
    pub label: String,
    /// The labels there are.
    pub known: Vec<String>,
}

/// A graph over JSON state as a node of another: fields of the same name go in and come out.
///
/// What comes out is an update of the parent and is reduced there.
pub fn json_subgraph<C: Send + Sync + 'static>(
    name: impl Into<String>,
    graph: &CompiledGraph<JsonState, C>,
    persistence: Persistence,
) -> SubgraphNode<JsonState, C> {
    let child = schema_of(graph.erased());
    let input = move |input: TaskInput, cx: &TaskContext| {
        let value = read(&input, None, cx).map(|it| it.to_value()).unwrap_or_default();
        let mut update = JsonUpdate::from_value(&child, value).map_err(NodeError::terminal)?;
        update.writes.retain(|write| child.shared.fields[write.0].input);
        Ok(RunInput::Fresh(Box::new(update)))
    };
    let output = |state: AnyState, cx: &TaskContext| {
        let state: JsonState = subgraph::downcast(state);
        JsonReturn::Value(state.to_value()).into_outcome(&schema_of(&cx.scope.graph))
    };
    let describe =
        |input: &TaskInput, cx: &TaskContext| read(input, None, cx).map(|it| it.to_value());
    SubgraphNode::erased(name.into(), graph, input, output, describe).persistence(persistence)
}
