//! Runs a graph in a jail. The host makes the graph's model calls, because the guest has no network and no API key.
#![expect(clippy::print_stdout, reason = "examples print their results")]

use graph_core::{Context, NodeError, START, State, StateGraph};
use sandbox_vm::{
    CallError, CallPolicy, GraphRun, Sandboxes, Spec,
    backend::Jail,
    guest::{self, Agent, Host},
    input_fields,
};
use serde_json::{Value, json};

#[derive(State, Clone, Debug, Default)]
struct Debate {
    topic: String,
    #[reduce(append)]
    turns: Vec<String>,
}

async fn argue(debate: &Debate, cx: &Context<Host>) -> Result<DebateUpdate, NodeError> {
    let prompt = json!({ "prompt": format!("Argue for {}.", debate.topic) });
    let turn: String = cx.deps().call(cx, "llm.chat", 0, prompt).await?;
    Ok(Debate::update().turns([turn]))
}

fn agent() -> Agent {
    Agent::new().graph("debate", |host: &Host| {
        let graph = StateGraph::<Debate, Host>::new()
            .node(argue)
            .edge(START, argue)
            .shared_checkpointer(host.checkpointer())
            .compile()?;
        Ok((graph, host.clone()))
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    guest::enter(agent);
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let sandboxes = Sandboxes::builder().backend(Jail::this_program()).open().await?;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("debate")).await?;
    // A real host would call a model here, with an API key that never enters the guest.
    let model =
        async |_: String, request: Value| Ok::<_, CallError>(json!(format!("answer to {request}")));
    let policy = CallPolicy::new(model).allow("llm.chat").budget(10);
    let run = GraphRun::new("debate")
        .input(input_fields(&json!({ "topic": "tea" }))?)
        .call_policy(policy);
    let mut running = sandbox.run_graph(run).await?;
    while let Some(event) = running.next().await {
        println!("{:?}", event.kind);
    }
    println!("{}", running.finish().await?.state());
    sandbox.delete().await;
    Ok(())
}
