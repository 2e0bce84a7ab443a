//! The gate as a node: an escalation interrupts the run, and the verdict resumes it.

use std::sync::Arc;

use draft_gate::{
    Gate, Judgement,
    graph::{self, Verdict},
};
use graph_core::{CompiledGraph, Context, Exit, MemorySaver, NodeError, START, State, StateGraph};

use crate::support::{OLD, Place, with_line};

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

fn question(exit: &Exit<Job>) -> Judgement {
    let Exit::Interrupted { interrupts, .. } = exit else { panic!("{exit:?}") };
    serde_json::from_value(interrupts[0].value.clone()).unwrap()
}

#[tokio::test]
async fn a_safe_change_needs_nobody() {
    let place = Place::new();
    let set = place
        .submit(&place.draft(&draft_gate::Request::edit("src/a.py", "t"), &with_line(OLD)))
        .set;
    let gate = Arc::new(Gate::open(place.path("")).unwrap());
    let exit = compiled().thread("1", gate).run(Job { set, ..Job::default() }).await.unwrap();
    assert_eq!(exit.into_state().decision, "Accept");
    assert_eq!(place.text("src/a.py"), with_line(OLD));
}

#[tokio::test]
async fn a_verdict_that_comes_too_late_is_asked_for_again() {
    let place = Place::with_contract(r#"{"draft_gate": {"preview": "always"}}"#);
    let set = place
        .submit(&place.draft(&draft_gate::Request::edit("src/a.py", "t"), &with_line(OLD)))
        .set;
    let graph = compiled();
    let thread = graph.thread("1", Arc::new(Gate::open(place.path("")).unwrap()));
    let exit = thread.run(Job { set, ..Job::default() }).await.unwrap();
    let first = question(&exit);
    place.put("src/a.py", &OLD.replace("one", "ONE"));
    let exit = thread.resume(Verdict::Accept { sight: first.sight }).await.unwrap();
    let second = question(&exit);
    assert_ne!(second.sight, first.sight);
    let better = OLD.replace("one", "1");
    let amend = Verdict::Amend {
        sight: second.sight,
        path: "src/a.py".to_owned(),
        content: better.clone(),
    };
    let third = question(&thread.resume(amend).await.unwrap());
    assert!(third.diff.contains("+1\n"), "{}", third.diff);
    let exit = thread.resume(Verdict::Accept { sight: third.sight }).await.unwrap();
    assert_eq!(exit.into_state().decision, "Accept");
    assert_eq!(place.text("src/a.py"), better);
    assert_eq!((place.count("accepted"), place.count("escalated")), (1, 1));
}

#[tokio::test]
async fn a_rejection_reaches_the_worker() {
    let place = Place::new();
    let set = place.propose_deletion("src/a.py").set;
    let graph = compiled();
    let thread = graph.thread("1", Arc::new(Gate::open(place.path("")).unwrap()));
    let sight = question(&thread.run(Job { set, ..Job::default() }).await.unwrap()).sight;
    let exit =
        thread.resume(Verdict::Reject { sight, reason: "still used".to_owned() }).await.unwrap();
    assert_eq!(exit.into_state().decision, "Reject");
    assert_eq!(place.gate.inbox("w", "t", None).unwrap().pop().unwrap().reason, "still used");
}
