//! The edges of an agent's graph.

use std::{collections::BTreeSet, sync::Arc};

use graph_core::{Goto, JsonState, NodeError, START, StateGraph, json::JsonBranch};

use super::{
    hook_node::Hook,
    route::{self, Destinations, HANDOFF, ModelRoute, SpecialTools},
};
use crate::{AgentState, command::JumpTo, middleware::Middleware, state::JUMP_TO, tool::Tool};

type Graph = StateGraph<JsonState>;

const MODEL: &str = "model";
const END_NAME: &str = "__end__";

/// The order of the nodes of an agent: START → before-agent hooks → (before-model hooks → model → after-model hooks →
/// tools)* → after-agent hooks → END.
pub(super) struct Shape {
    before_agent: Vec<HookNode>,
    before_model: Vec<HookNode>,
    /// Hooks in the order of the middleware. They run in reverse order, so the first one runs last and decides where
    /// the loop continues.
    after_model: Vec<HookNode>,
    /// Hooks in the order of the middleware. They run in reverse order.
    after_agent: Vec<HookNode>,
    has_tools: bool,
    /// Whether the loop may end after the tools.
    tools_may_end: bool,
    /// Whether the agent has a response format.
    has_response: bool,
    tools: Arc<SpecialTools>,
    model_route: ModelRoute,
}

#[derive(Clone)]
struct HookNode {
    name: String,
    jumps: Vec<JumpTo>,
}

impl Shape {
    pub(super) fn new(
        middleware: &[Arc<dyn Middleware>],
        tools: &[Tool],
        has_tools: bool,
        has_response: bool,
        response_tools: Vec<String>,
        malformed_call_retries: usize,
    ) -> Self {
        let nodes = |hook: Hook| -> Vec<HookNode> {
            let node = |it: &Arc<dyn Middleware>| {
                let jumps = hook.jumps(&it.hooks())?.clone();
                Some(HookNode { name: hook.node_name(&it.name()), jumps })
            };
            middleware.iter().filter_map(node).collect()
        };
        let wraps_tools = middleware.iter().any(|it| it.hooks().wraps_tools);
        let state_readers = tools.iter().filter(|it| it.needs_state());
        Self {
            before_agent: nodes(Hook::BeforeAgent),
            before_model: nodes(Hook::BeforeModel),
            after_model: nodes(Hook::AfterModel),
            after_agent: nodes(Hook::AfterAgent),
            has_tools,
            has_response,
            tools_may_end: tools.iter().any(Tool::is_return_direct) || !response_tools.is_empty(),
            model_route: ModelRoute { wraps_tools, malformed_call_retries },
            tools: Arc::new(SpecialTools {
                response: response_tools,
                handoffs: handoffs(tools),
                state_readers: state_readers.map(|it| it.name().to_owned()).collect(),
                return_direct: tools
                    .iter()
                    .map(|it| (it.name().to_owned(), it.is_return_direct()))
                    .collect(),
            }),
        }
    }

    /// Returns the node at which each round of the loop starts.
    fn loop_entry(&self) -> String {
        self.before_model.first().map_or_else(|| MODEL.to_owned(), |it| it.name.clone())
    }

    /// Returns the node that follows the loop.
    fn exit(&self) -> String {
        self.after_agent.last().map_or_else(|| END_NAME.to_owned(), |it| it.name.clone())
    }

    fn destinations(&self) -> Destinations {
        Destinations { loop_entry: self.loop_entry(), exit: self.exit() }
    }

    pub(super) fn add_edges(&self, mut graph: Graph) -> Graph {
        let entry =
            self.before_agent.first().map_or_else(|| self.loop_entry(), |it| it.name.clone());
        graph = graph.edge(START, entry);
        graph = self.line(graph, &self.before_agent, &self.loop_entry());
        graph = self.line(graph, &self.before_model, MODEL);
        if let Some(last) = self.after_model.last() {
            graph = graph.edge(MODEL, last.name.clone());
        }
        let deciding = self.after_model.first();
        let reversed: Vec<_> = self.after_model.iter().skip(1).rev().cloned().collect();
        if let Some(first) = deciding {
            graph = self.line(graph, &reversed, &first.name);
        }
        graph = self.loop_exit(graph, deciding);
        let reversed: Vec<_> = self.after_agent.iter().rev().cloned().collect();
        self.line(graph, &reversed, END_NAME)
    }

    /// Connects hooks with each other, and the last one with `then`.
    fn line(&self, mut graph: Graph, hooks: &[HookNode], then: &str) -> Graph {
        for (index, hook) in hooks.iter().enumerate() {
            let next = hooks.get(index + 1).map_or(then, |it| it.name.as_str());
            graph = self.hook_edge(graph, hook, next);
        }
        graph
    }

    /// Connects a hook with the next node, or with a branch if the hook declares jumps.
    fn hook_edge(&self, graph: Graph, hook: &HookNode, next: &str) -> Graph {
        if hook.jumps.is_empty() {
            return graph.edge(hook.name.clone(), next.to_owned());
        }
        let to = self.destinations();
        let mut targets = vec![next.to_owned()];
        targets.extend(hook.jumps.iter().filter_map(|it| match it {
            JumpTo::End => Some(to.exit.clone()),
            JumpTo::Tools => Some("tools".to_owned()),
            JumpTo::Model => (to.loop_entry != hook.name).then(|| to.loop_entry.clone()),
        }));
        let (next, declared) = (next.to_owned(), hook.jumps.clone());
        let branch = JsonBranch::new("jump", move |input| {
            let jump = input.get(JUMP_TO).and_then(JumpTo::from_value);
            let jump = jump.filter(|it| declared.contains(it));
            Ok(vec![jump.map_or_else(|| Goto::node(next.clone()), |it| to.resolve(it))])
        });
        graph.json_branch(hook.name.clone(), branch.destinations(unique(targets)))
    }

    /// Adds the edges that leave the model (or `deciding`, the last of the after-model hooks to run, if there is one),
    /// and the edges that leave the tools.
    fn loop_exit(&self, mut graph: Graph, deciding: Option<&HookNode>) -> Graph {
        let to = self.destinations();
        let from = deciding.map_or(MODEL, |it| it.name.as_str()).to_owned();
        let tools = self.tools.clone();
        if self.has_tools {
            graph = graph.json_branch("tools", self.after_tools());
            let mut targets = vec!["tools".to_owned(), to.exit.clone()];
            let settings = self.model_route;
            // Retries of malformed calls also go to the loop entry, but no edge is declared for them, so that the
            // drawing shows the ordinary loop.
            if self.has_response || deciding.is_some() {
                targets.push(to.loop_entry.clone());
            }
            if !tools.handoffs.is_empty() {
                graph = graph.json_branch(HANDOFF, self.after_tools());
                targets.push(HANDOFF.to_owned());
            }
            let branch = route_branch("model_to_tools", move |state| {
                route::after_model(state, &to, &tools, settings)
            });
            return graph.json_branch(from, branch.destinations(unique(targets)));
        }
        if !tools.response.is_empty() {
            let targets = vec![to.loop_entry.clone(), to.exit.clone()];
            let branch =
                route_branch("model_to_model", move |state| Ok(route::after_response(state, &to)));
            return graph.json_branch(from, branch.destinations(unique(targets)));
        }
        match deciding {
            Some(hook) => self.hook_edge(graph, hook, &to.exit),
            None => graph.edge(from, to.exit),
        }
    }

    fn after_tools(&self) -> JsonBranch {
        let to = self.destinations();
        let mut targets = vec![to.loop_entry.clone()];
        if self.tools_may_end {
            targets.push(to.exit.clone());
        }
        if !self.tools.handoffs.is_empty() {
            targets.push(HANDOFF.to_owned());
        }
        let tools = self.tools.clone();
        let branch =
            route_branch("tools_to_model", move |state| Ok(route::after_tools(state, &to, &tools)));
        branch.destinations(unique(targets))
    }
}

/// Returns the names of the tools that hand the conversation to another agent.
pub(super) fn handoffs(tools: &[Tool]) -> Vec<String> {
    tools.iter().filter(|it| it.is_handoff()).map(|it| it.name().to_owned()).collect()
}

fn route_branch(
    name: &str,
    route: impl Fn(&AgentState) -> Result<Vec<Goto>, NodeError> + Send + Sync + 'static,
) -> JsonBranch {
    JsonBranch::new(name, move |input| route(&AgentState::from_input(input)?))
}

fn unique(mut targets: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    targets.retain(|it| seen.insert(it.clone()));
    targets
}
