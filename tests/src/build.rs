//! Builds compiled graphs from their descriptions.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use graph_core::{
    BuildError, CachePolicy, IntoNode, JsonFieldKind, JsonState, JsonStateSchema, MemoryCache,
    NodeError, NodeExt, RetryPolicy, StateGraph, Stops,
    checkpoint::Checkpointer,
    json::{JsonBranch, JsonInput, json_node, json_subgraph},
    state::FieldError,
};

use crate::{
    built_graph::{BuiltGraph, persistence},
    case::{BranchSpec, GraphSpec, NodeSpec, Op, Sources},
    counters::Counters,
    declared::{Declared, branch_targets},
    error::ScriptedError,
    node::{Body, Script, route},
};

/// Dependencies that all graphs of a case share.
#[derive(Clone)]
pub(crate) struct CaseDeps {
    pub(crate) counters: Arc<Counters>,
    pub(crate) saver: Arc<dyn Checkpointer>,
    cache: MemoryCache,
    mode: Mode,
}

impl CaseDeps {
    pub(crate) fn new(saver: Arc<dyn Checkpointer>, mode: Mode) -> Self {
        Self { counters: Arc::default(), saver, cache: MemoryCache::default(), mode }
    }
}

/// How the graphs of a case are built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    Ordinary,
    /// All graphs are eager, and their nodes declare the fields and nodes that their programs mention.
    Eager {
        /// Whether nodes declare the fields that they write.
        declares_writes: bool,
        /// Determines how long each task takes, as a number of yields.
        latencies: u64,
    },
}

impl Mode {
    fn is_eager(self) -> bool {
        self != Self::Ordinary
    }
}

/// The error returned when no graph can be built from a description.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildCaseError {
    #[error(transparent)]
    Graph(#[from] BuildError),
    #[error(transparent)]
    Field(#[from] FieldError),
}

/// Builds the root graph of a case. The graph has a checkpointer, unless the case disables it.
pub(crate) fn root(spec: &GraphSpec, deps: &CaseDeps) -> Result<BuiltGraph, BuildCaseError> {
    let schema = schema(spec)?;
    let mut graph = plan(spec, &schema, &schema, deps)?;
    if spec.compile.checkpointer != Some(false) {
        graph = graph.shared_checkpointer(deps.saver.clone());
    }
    Ok(BuiltGraph { graph: graph.compile()?, schema })
}

fn nested(
    spec: &GraphSpec,
    parent: &JsonStateSchema,
    deps: &CaseDeps,
) -> Result<BuiltGraph, BuildCaseError> {
    let schema = schema(spec)?;
    let graph = plan(spec, &schema, parent, deps)?.compile()?;
    Ok(BuiltGraph { graph, schema })
}

fn schema(spec: &GraphSpec) -> Result<JsonStateSchema, FieldError> {
    let fields = spec.state.iter().map(|(name, kind)| (name.as_str(), JsonFieldKind::from(*kind)));
    let mut schema = JsonStateSchema::new(fields)?;
    if let Some(input) = &spec.input {
        schema = schema.with_input(input)?;
    }
    if let Some(output) = &spec.output {
        schema = schema.with_output(output)?;
    }
    Ok(schema)
}

type Graph = StateGraph<JsonState>;

/// Builds a graph without compiling it. `parent` is the schema of the enclosing graph. A root graph is its own parent.
fn plan(
    spec: &GraphSpec,
    schema: &JsonStateSchema,
    parent: &JsonStateSchema,
    deps: &CaseDeps,
) -> Result<Graph, BuildCaseError> {
    let mut graph = schema.graph();
    for (name, node) in &spec.nodes {
        let builder = NodeBuilder { graph: spec, schema, parent, deps };
        graph = builder.node(graph, name, node)?;
    }
    for (from, to) in &spec.edges {
        graph = match from {
            Sources::One(from) => graph.edge(from.clone(), to.clone()),
            Sources::All(from) => graph.join(from.clone(), to.clone()),
        };
    }
    for (index, branch) in spec.branches.iter().enumerate() {
        let name = format!("branch {index}");
        let mut json_branch = self::branch(name, branch, &deps.counters);
        if deps.mode.is_eager() && branch.ends.is_none() {
            json_branch = json_branch.destinations(branch_targets(spec, branch));
        }
        graph = graph.json_branch(branch.from.clone(), json_branch);
    }
    if deps.mode.is_eager() {
        graph = graph.eager();
    }
    if spec.compile.cache {
        graph = graph.cache(deps.cache.clone());
    }
    let stops = |stops: &Option<_>| stops.as_ref().map_or(Stops::None, Stops::from);
    let before = stops(&spec.compile.interrupt_before);
    Ok(graph.stop_before(before).stop_after(stops(&spec.compile.interrupt_after)))
}

/// The fields that a node declares. `None` means all fields.
#[derive(Default)]
struct Fields {
    reads: Option<Vec<String>>,
    writes: Option<Vec<String>>,
}

/// Builds the nodes of one graph.
#[derive(Clone, Copy)]
struct NodeBuilder<'a> {
    graph: &'a GraphSpec,
    schema: &'a JsonStateSchema,
    parent: &'a JsonStateSchema,
    deps: &'a CaseDeps,
}

impl NodeBuilder<'_> {
    fn node(self, graph: Graph, name: &str, spec: &NodeSpec) -> Result<Graph, BuildCaseError> {
        if let Some(inner) = &spec.graph {
            let inner = nested(inner, self.schema, self.deps)?;
            let persistence_mode = persistence(spec.checkpointer);
            let node = json_subgraph(name, &inner.graph, persistence_mode);
            return self.configured(graph, name, spec, node, Fields::default());
        }
        let body = self.body(name.to_owned(), &spec.ops)?;
        let mut node = json_node(name, move |input, cx| body.clone().run(input, cx));
        let Mode::Eager { declares_writes, .. } = self.deps.mode else {
            if let Some(reads) = &spec.reads {
                node = node.reads(reads);
            }
            return self.configured(graph, name, spec, node, Fields::default());
        };
        let declared = Declared::new(self.graph, name, spec);
        node = node.destinations(&declared.targets).parent_destinations(&declared.parent_targets);
        if let Some(reads) = &declared.reads {
            node = node.reads(reads);
        }
        let fields = Fields {
            reads: declared.stored_reads(self.graph),
            writes: declared.stored_writes(self.graph).filter(|_| declares_writes),
        };
        self.configured(graph, name, spec, node, fields)
    }

    fn configured<M>(
        self,
        graph: Graph,
        name: &str,
        spec: &NodeSpec,
        node: impl NodeExt + IntoNode<JsonState, (), M>,
        fields: Fields,
    ) -> Result<Graph, BuildCaseError> {
        let retry = RetryPolicy::max_attempts(spec.retry.unwrap_or(1));
        // LangGraph accepts nodes that no path leads to.
        let node = node.command_only();
        let mut node = node.retry(retry.backoff(Duration::ZERO, 1.0).without_jitter());
        if let Some(reads) = fields.reads {
            node = node.reads(reads);
        }
        if let Some(writes) = fields.writes {
            node = node.writes(writes);
        }
        if spec.defer {
            node = node.defer();
        }
        if spec.cache {
            node = node.cache(CachePolicy::new());
        }
        let Some(ops) = &spec.on_error else { return Ok(graph.node(node)) };
        let name = format!("on_error:{name}");
        let body = self.body(name.clone(), ops)?;
        let handler = json_node(name, move |input, cx| body.clone().run(input, cx));
        Ok(graph.node(node.on_error(handler)))
    }

    fn body(self, name: String, ops: &[Op]) -> Result<Body, BuildCaseError> {
        let mut called = BTreeMap::new();
        for (place, op) in ops.iter().enumerate() {
            if let Op::Call { call, .. } = op {
                called.insert(place, nested(call, self.schema, self.deps)?);
            }
        }
        let script = Script {
            name,
            ops: ops.to_vec(),
            called,
            schema: self.schema.clone(),
            parent: self.parent.clone(),
            counters: self.deps.counters.clone(),
            latencies: match self.deps.mode {
                Mode::Ordinary => None,
                Mode::Eager { latencies, .. } => Some(latencies),
            },
        };
        Ok(Body { script: Arc::new(script) })
    }
}

fn branch(name: String, spec: &BranchSpec, counters: &Arc<Counters>) -> JsonBranch {
    let (rules, counters) = (spec.clone(), counters.clone());
    let place = format!("{}#{name}", spec.from);
    let mut branch = JsonBranch::new(name, move |input: &JsonInput| match &rules.fail {
        Some(message) if counters.should_fail(place.clone(), rules.times) => {
            Err(NodeError::from(ScriptedError { message: message.clone() }))
        }
        _ => route(&rules, input),
    });
    if let Some(ends) = &spec.ends {
        branch = branch.destinations(ends);
    }
    if let Some(map) = &spec.map {
        branch = branch.path_map(map);
    }
    branch
}
