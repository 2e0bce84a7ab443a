//! A worker adds a flag to a program. A person reviews the change before the gate applies it.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::{error::Error, sync::Arc};

use draft_gate::{
    DraftRequest, Gate, Submission,
    graph::{self, Verdict},
};
use graph_core::{Context, MemorySaver, NodeError, RunOutcome, START, State, StateGraph};

#[derive(State, Clone, Debug, Default)]
struct Job {
    path: String,
    set: String,
    decision: String,
}

/// This node takes the place of a local model with tools.
async fn implement(job: &Job, cx: &Context<Arc<Gate>>) -> Result<JobUpdate, NodeError> {
    let worker = cx.deps().worker("implementer")?;
    let draft = worker.request(&DraftRequest::edit(&job.path, "phase10_version_flag"))?;
    let old = worker.read(&draft.draft_path)?.content;
    let flag = "def main():\n    if '--version' in sys.argv:\n        print('watchdog 1.0')\n        return\n";
    worker.write(&draft.draft_path, &old.replace("def main():\n", flag))?;
    let submitted = worker.submit(&Submission::of(&draft, "Added --version handling in main()"))?;
    Ok(Job::update().set(submitted.set))
}

/// Judges the change. If the gate escalates it, the run is interrupted here until a person's verdict resumes the run.
async fn review(job: &Job, cx: &Context<Arc<Gate>>) -> Result<JobUpdate, NodeError> {
    let judgement = graph::judge(cx, cx.deps(), &job.set).await?;
    Ok(Job::update().decision(format!("{:?}", judgement.decision)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let workspace = tempfile::tempdir()?;
    let file = workspace.path().join("watchdog.py");
    std::fs::write(&file, "import sys\n\n\ndef main():\n    print('watching')\n\n\nmain()\n")?;
    // This contract requires a review of every change.
    std::fs::create_dir(workspace.path().join("_handoff"))?;
    let contract = r#"{"draft_gate": {"preview": "always"}}"#;
    std::fs::write(workspace.path().join("_handoff/TASK_CONTRACT.json"), contract)?;

    let graph = StateGraph::<Job, Arc<Gate>>::new()
        .node(implement)
        .node(review)
        .edge(START, implement)
        .edge(implement, review)
        .checkpointer(MemorySaver::new())
        .compile()?;
    let thread = graph.thread("phase10", Arc::new(Gate::open(workspace.path())?));
    let mut exit = thread.run(Job { path: "watchdog.py".into(), ..Default::default() }).await?;
    while let RunOutcome::Interrupted { interrupts, .. } = &exit {
        let question: draft_gate::Judgement = serde_json::from_value(interrupts[0].value.clone())?;
        println!("{}\n{}", question.findings[0], question.diff);
        exit = thread.resume(Verdict::Accept { fingerprint: question.fingerprint }).await?;
    }
    println!("{:?}\n{}", exit.into_state(), std::fs::read_to_string(file)?);
    Ok(())
}
