//! Compiled graphs that are nodes of graphs with the same state.

use std::{marker::PhantomData, sync::Arc};

use serde_json::Value;

use super::{IsSubgraph, SubgraphSource, run_nested};
use crate::{
    command::route::DeclaredTargets,
    context::task::TaskContext,
    engine::input::RunInput,
    error::NodeError,
    graph::{
        compiled::CompiledGraph,
        endpoint::{Source, Target},
        erased::Subgraph,
        into_node::{IntoNode, NodeParts, NodeShape},
    },
    label::Label,
    node::{
        erased::{BoxFuture, ErasedNode, NodeBody, Private, TaskInput},
        options::NodeOptions,
        output::NodeOutput,
    },
    remote::graph::RemoteGraph,
    state::{State, erased::downcast_state, fold::Fold},
};

#[diagnostic::do_not_recommend]
impl<S: State, C> NodeShape<S, C, IsSubgraph> for &CompiledGraph<S, C> {
    type Checked = Self;
}

/// Makes a compiled graph a node of another graph with the same state. The node is named after the graph.
///
/// The subgraph starts with the parent's input fields, and only the fields that it changed are written to the parent's
/// state. A list with the reducer `append` receives only the items that the subgraph appended, so several such
/// subgraphs can run in one step.
#[diagnostic::do_not_recommend]
impl<S: State, C: Send + Sync + 'static> IntoNode<S, C, IsSubgraph> for &CompiledGraph<S, C> {
    type Input = S;

    fn into_node(self, private: Private) -> NodeParts {
        same_state::<S>(self.subgraph(private))
    }
}

#[diagnostic::do_not_recommend]
impl<S: State, C> NodeShape<S, C, IsSubgraph> for &RemoteGraph<S> {
    type Checked = Self;
}

#[diagnostic::do_not_recommend]
impl<S: State, C: Send + Sync + 'static> IntoNode<S, C, IsSubgraph> for &RemoteGraph<S> {
    type Input = S;

    fn into_node(self, private: Private) -> NodeParts {
        same_state::<S>(SubgraphSource::<C>::subgraph(self, private))
    }
}

/// Returns a node that runs a graph with the state type of its parent.
fn same_state<S: State>(inner: Subgraph) -> NodeParts {
    NodeParts {
        label: Some(Label::from(inner.graph.name.clone())),
        subgraph: Some(inner.clone()),
        body: NodeBody(Arc::new(SameState::<S> { inner, state: PhantomData })),
        targets: DeclaredTargets::default(),
        options: NodeOptions::default(),
    }
}

#[diagnostic::do_not_recommend]
impl<S: State, C: Send + Sync + 'static> Source<S, C, IsSubgraph> for &CompiledGraph<S, C> {
    fn source(self) -> Label {
        Label::from(self.erased().name.clone())
    }
}

#[diagnostic::do_not_recommend]
impl<S: State, C: Send + Sync + 'static> Target<S, C, IsSubgraph> for &CompiledGraph<S, C> {
    fn target(self) -> Label {
        Label::from(self.erased().name.clone())
    }
}

#[diagnostic::do_not_recommend]
impl<S: State, C> Source<S, C, IsSubgraph> for &RemoteGraph<S> {
    fn source(self) -> Label {
        Label::from(self.graph.name.clone())
    }
}

#[diagnostic::do_not_recommend]
impl<S: State, C> Target<S, C, IsSubgraph> for &RemoteGraph<S> {
    fn target(self) -> Label {
        Label::from(self.graph.name.clone())
    }
}

/// The body of a node that runs a graph with the state type of its parent.
struct SameState<S> {
    inner: Subgraph,
    state: PhantomData<fn(S)>,
}

impl<S: State> ErasedNode for SameState<S> {
    fn call(
        &self,
        input: TaskInput,
        cx: &Arc<TaskContext>,
    ) -> BoxFuture<Result<NodeOutput, NodeError>> {
        let (inner, cx) = (self.inner.clone(), cx.clone());
        Box::pin(async move {
            let input = S::clone(&*input.state::<S>(cx.node())?).into_update();
            // The state in which the subgraph starts. A subgraph that resumes from its checkpoint gets the same input
            // as when it started, so the state at its start need not be stored.
            let mut before: S = downcast_state(inner.graph.initial.snapshot());
            before.fold(&mut input.clone(), &mut Fold::default()).map_err(NodeError::terminal)?;
            let outcome = run_nested(&cx, &inner, RunInput::Fresh(Box::new(input))).await?;
            if !outcome.has_output {
                return Ok(NodeOutput::default());
            }
            let after: S = downcast_state(outcome.state);
            let update = after.update_since(&before).map_err(NodeError::terminal)?;
            Ok(NodeOutput::update::<S>(update))
        })
    }

    fn input_json(&self, input: &TaskInput, _: &TaskContext) -> Option<Value> {
        input.to_json::<S>()
    }
}
