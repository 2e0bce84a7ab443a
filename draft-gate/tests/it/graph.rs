//! Tests of the gate as a graph node. An escalation interrupts the run, and the person's verdict resumes it.

use std::sync::Arc;

use draft_gate::{
    Gate, Judgement,
    graph::{self, Verdict},
};
use graph_core::{
    CompiledGraph, Context, MemorySaver, NodeError, RunOutcome, START, State, StateGraph,
};

use crate::support::{OLD, TestWorkspace, with_line};

#[derive(State, Clone, Debug, Default)]
struct Job {
    set: String,
    decision: String,
}

async fn review(job: &Job, cx: &Context<Arc<Gate>>) -> Result<JobUpdate, NodeError> {
    let judgement = graph::judge(cx, cx.deps(), &job.set).await?;
    Ok(Job::update().decision(format!("{:?}", judgement.decision)))
}

fn compiled() -> CompiledGraph<Job, Arc<Gate>> {
    let graph = StateGraph::new().node(review).edge(START, review);
    graph.checkpointer(MemorySaver::new()).compile().unwrap()
}

fn question(exit: &RunOutcome<Job>) -> Judgement {
    let RunOutcome::Interrupted { interrupts, .. } = exit else { panic!("{exit:?}") };
    serde_json::from_value(interrupts[0].value.clone()).unwrap()
}

#[tokio::test]
async fn safe_changes_do_not_interrupt() {
    let ws = TestWorkspace::new();
    let set =
        ws.submit(&ws.draft(&draft_gate::DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
    let gate = Arc::new(Gate::open(ws.path("")).unwrap());
    let exit = compiled().thread("1", gate).run(Job { set, ..Job::default() }).await.unwrap();
    assert_eq!(exit.into_state().decision, "Accept");
    assert_eq!(ws.text("src/a.py"), with_line(OLD));
}

#[tokio::test]
async fn stale_verdicts_interrupt_again() {
    let ws = TestWorkspace::with_contract(r#"{"draft_gate": {"preview": "always"}}"#);
    let set =
        ws.submit(&ws.draft(&draft_gate::DraftRequest::edit("src/a.py", "t"), &with_line(OLD))).set;
    let graph = compiled();
    let thread = graph.thread("1", Arc::new(Gate::open(ws.path("")).unwrap()));
    let exit = thread.run(Job { set, ..Job::default() }).await.unwrap();
    let first = question(&exit);
    ws.put("src/a.py", &OLD.replace("one", "ONE"));
    let exit = thread.resume(Verdict::Accept { fingerprint: first.fingerprint }).await.unwrap();
    let second = question(&exit);
    assert_ne!(second.fingerprint, first.fingerprint);
    let better = OLD.replace("one", "1");
    let amend = Verdict::Amend {
        fingerprint: second.fingerprint,
        path: "src/a.py".to_owned(),
        content: better.clone(),
    };
    let third = question(&thread.resume(amend).await.unwrap());
    assert!(third.diff.contains("+1\n"), "{}", third.diff);
    let exit = thread.resume(Verdict::Accept { fingerprint: third.fingerprint }).await.unwrap();
    assert_eq!(exit.into_state().decision, "Accept");
    assert_eq!(ws.text("src/a.py"), better);
    assert_eq!((ws.count("accepted"), ws.count("escalated")), (1, 1));
}

#[tokio::test]
async fn rejections_are_sent_to_the_worker() {
    let ws = TestWorkspace::new();
    let set = ws.propose_deletion("src/a.py").set;
    let graph = compiled();
    let thread = graph.thread("1", Arc::new(Gate::open(ws.path("")).unwrap()));
    let fingerprint =
        question(&thread.run(Job { set, ..Job::default() }).await.unwrap()).fingerprint;
    let exit = thread
        .resume(Verdict::Reject { fingerprint, reason: "still used".to_owned() })
        .await
        .unwrap();
    assert_eq!(exit.into_state().decision, "Reject");
    assert_eq!(ws.gate.inbox("w", "t", None).unwrap().pop().unwrap().reason, "still used");
}
