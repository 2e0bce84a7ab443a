//! Runs a debate in a jail, as a node of another graph. The host asks a reviewer before it accepts the result.
#![expect(clippy::print_stdout, reason = "examples print their results")]

use graph_core::{
    BuildError, CompiledGraph, Context, MemorySaver, NodeError, START, State, StateGraph, subgraph,
};
use sandbox_vm::{
    CallError, CallPolicy, HostFunction, HostFunctions, SandboxOptions, Sandboxes, Spec,
    backend::Jail,
    guest::{self, Agent, Host},
    sandboxed,
};

/// The only function of the host that the debate can call.
const CHAT: HostFunction<String, String> = HostFunction::new("llm.chat");

#[derive(State, Clone, Debug, Default)]
struct Debate {
    topic: String,
    #[reduce(append)]
    turns: Vec<String>,
}

async fn argue(debate: &Debate, cx: &Context<Host>) -> Result<DebateUpdate, NodeError> {
    let prompt = format!("Argue for {}.", debate.topic);
    Ok(Debate::update().turns([CHAT.call(cx.deps(), cx, 0, &prompt).await?]))
}

async fn review(debate: &Debate, cx: &Context<Host>) -> Result<DebateUpdate, NodeError> {
    let remark: String = cx.interrupt(&debate.turns)?;
    Ok(Debate::update().turns([remark]))
}

fn debate() -> Result<CompiledGraph<Debate, Host>, BuildError> {
    let graph = StateGraph::new().name("debate").node(argue).node(review);
    graph.edge(START, argue).edge(argue, review).compile()
}

#[derive(State, Clone, Debug, Default)]
struct Plan {
    idea: String,
    arguments: Vec<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    guest::enter(|| Agent::new().graph("debate", |host| Ok((debate()?, host.clone()))));
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let sandboxes = Sandboxes::builder().backend(Jail::this_program()).open().await?;
    // A real host would call a model here, with an API key that never enters the guest.
    let model = async |prompt: String| Ok::<_, CallError>(format!("answer to `{prompt}`"));
    let policy = CallPolicy::from(HostFunctions::new().add(CHAT, model)).budget(10);
    let options = SandboxOptions::new(Spec::new("debate")).call_policy(policy);
    let decide = subgraph(
        "decide",
        &sandboxed(&debate()?, &sandboxes, options),
        |plan: &Plan| Debate { topic: plan.idea.clone(), ..Default::default() },
        |debate: Debate| Plan::update().arguments(debate.turns),
    );
    let graph = StateGraph::<Plan>::new()
        .node(&decide)
        .edge(START, &decide)
        .checkpointer(MemorySaver::new())
        .compile()?;
    println!("{}", graph.mermaid_expanded(1));
    let thread = graph.thread("plan", ());
    let outcome = thread.run(Plan { idea: "tea".into(), ..Default::default() }).await?;
    println!("the guest asks: {}", outcome.interrupts()[0].value);
    // The first sandbox is gone. Another one resumes from the checkpoint.
    println!("{:#?}", thread.resume("agreed").await?.state());
    Ok(())
}
