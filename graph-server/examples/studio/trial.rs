//! A proposal that is tried in a sandbox. The graph in the sandbox also asks a person for the decision.

use graph_core::{
    BuildError, CompiledGraph, Context, NodeError, START, State, StateGraph, subgraph,
};
use graph_server::langgraph::{Graphs, Schemas};
use sandbox_vm::{
    Isolation, Sandboxes, Spec,
    backend::{InProcess, Jail},
    guest::Agent,
    sandboxed,
};
use serde_json::json;

use super::schema::object;

#[derive(State, Clone, Debug, Default)]
struct Proposal {
    idea: String,
    decision: String,
}

#[derive(State, Clone, Debug, Default)]
struct Trial {
    idea: String,
    report: String,
    decision: String,
}

async fn measure(trial: &Trial) -> TrialUpdate {
    Trial::update().report(format!("The trial of {} was successful.", trial.idea))
}

async fn decide(trial: &Trial, cx: &Context) -> Result<TrialUpdate, NodeError> {
    let question = json!({ "question": "Accept the proposal?", "report": trial.report });
    let decision: String = cx.interrupt(question)?;
    Ok(Trial::update().decision(decision))
}

fn trial() -> Result<CompiledGraph<Trial>, BuildError> {
    let graph = StateGraph::<Trial>::new().name("trial").node(measure).node(decide);
    graph.edge(START, measure).edge(measure, decide).compile()
}

/// Returns the agent that runs the trial in a sandbox.
pub(super) fn agent() -> Agent {
    Agent::new().graph("trial", |_| Ok((trial()?, ())))
}

async fn publish(proposal: &Proposal) -> ProposalUpdate {
    Proposal::update().decision(format!("published: {}", proposal.decision))
}

pub(super) async fn add(graphs: Graphs) -> Result<Graphs, Box<dyn std::error::Error>> {
    // Where the system does not allow jails, the example works without isolation.
    let sandboxes = Sandboxes::builder()
        .backend(Jail::this_program())
        .backend(InProcess::new(agent))
        .isolation(Isolation::Preferred)
        .open()
        .await?;
    let trial = subgraph(
        "trial",
        &sandboxed(&trial()?, &sandboxes, Spec::new("trial")),
        |proposal: &Proposal| Trial { idea: proposal.idea.clone(), ..Default::default() },
        |trial: Trial| Proposal::update().decision(trial.decision),
    );
    let graph = StateGraph::<Proposal>::new()
        .node(&trial)
        .node(publish)
        .edge(START, &trial)
        .edge(&trial, publish);
    let input = json!({ "idea": { "type": "string", "title": "Idea" } });
    let mut schemas = Schemas::of_state(object("proposal", &input));
    schemas.output = None;
    Ok(graphs.add("proposal", graph, schemas)?)
}
