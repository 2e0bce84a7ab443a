//! Branches of dynamic graphs.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::{
    command::route::RouteTarget,
    error::NodeError,
    goto::{Goto, Gotos},
    graph::{
        branch::IntoRouter,
        build::StateGraph,
        endpoint::Source,
        erased::{RouteCall, RouteFn, Router},
    },
    json::{
        input::JsonInput,
        slot::JsonWrite,
        state::{JsonState, JsonUpdate},
    },
    label::{END_NAME, Label},
    node::erased::Private,
};

/// A conditional edge of a dynamic graph.
///
/// ```
/// use graph_core::{Goto, JsonFieldKind, JsonStateSchema, START, json::JsonBranch, json_node};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schema = JsonStateSchema::new([("n", JsonFieldKind::Last)])?;
/// let enough = JsonBranch::new("enough", |input| {
///     let is_enough = input.get("n").is_some_and(|it| it == 3);
///     Ok(vec![Goto::node(if is_enough { "yes" } else { "no" })])
/// });
/// let graph = schema
///     .graph()
///     .node(json_node("count", |input, _| async move {
///         let n = input.get("n").and_then(|it| it.as_u64()).unwrap_or_default();
///         Ok(json!({ "n": n + 1 }))
///     }))
///     .edge(START, "count")
///     .branch("count", enough.path_map([("yes", "__end__"), ("no", "count")]))
///     .compile()?;
/// let output = graph.invoke(schema.input(json!({ "n": 0 }))?, ()).await?;
/// assert_eq!(output.to_value(), json!({ "n": 3 }));
/// # Ok(()) }
/// ```
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

    /// Declares the nodes that the branch can lead to, for validation and drawings. If the branch has a path map, these
    /// are nodes in addition to those of the map, such as the targets of payloads.
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
}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsJsonBranch;

#[diagnostic::do_not_recommend]
impl<C> IntoRouter<JsonState, C, IsJsonBranch> for JsonBranch {
    fn into_router(self, _: Private) -> Router {
        let target = |label: &str, to: &str| RouteTarget {
            to: Label::from(to.to_owned()),
            variant: Label::from(label.to_owned()),
            sends: false,
        };
        let mapped = self.path_map.iter().flatten().map(|(label, to)| target(label, to));
        let declared = self.destinations.iter().flatten().map(|it| target(it, it));
        let has_targets = self.path_map.is_some() || self.destinations.is_some();
        let targets = has_targets.then(|| mapped.chain(declared).collect());
        let (route, path_map) = (self.route, self.path_map);
        let run = move |call: &RouteCall<'_>| -> Result<Gotos, NodeError> {
            let gotos = route(&branch_input(call))?;
            gotos.into_iter().map(|it| apply_path_map(it, path_map.as_ref())).collect()
        };
        Router {
            name: self.name,
            targets,
            exclusive: false,
            function: RouteFn::Sync(Arc::new(run)),
        }
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
        for JsonWrite { field, value, .. } in &update.writes {
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
#[derive(Clone, thiserror::Error)]
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

crate::readable_debug!(UnknownLabelError);

impl<C: Send + Sync + 'static> StateGraph<JsonState, C> {
    /// Adds a conditional edge to a dynamic graph, which is a graph with a JSON state.
    pub fn json_branch<M>(self, from: impl Source<JsonState, C, M>, branch: JsonBranch) -> Self {
        self.branch(from, branch)
    }
}
