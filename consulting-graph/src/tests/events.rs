//! Events that only some runs have, and events that a crash lost.

use std::{fs, sync::Mutex};

use serde_json::json;
use tokio::sync::oneshot;

use super::{
    models::{Reaction, reacting_model},
    run::{finish, resume_options, run_config},
};
use crate::{
    event::{EventLog, Layer, LayerStatus, PipelineEvent},
    models::Limit,
    report::SpendingEntry,
    run::{ResumeOptions, Run},
};

fn logged(run: &Run) -> Vec<PipelineEvent> {
    let events = EventLog::read(&run.dir().join("events.jsonl")).unwrap();
    assert!(events.iter().zip(1..).all(|(it, seq)| it.seq == seq && it.at.ends_with('Z')));
    events.into_iter().map(|it| it.event).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_with_a_failed_agent_is_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path(), run_config(2, 1)).unwrap();
    let model_override = reacting_model(|_, request| {
        let is_second =
            request.system.as_ref().is_some_and(|it| it.contains("through its markets"));
        match is_second && request.schema.is_some() {
            true => Reaction::Fail("the key was revoked".to_owned()),
            false => Reaction::Delay(std::time::Duration::ZERO),
        }
    });
    finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
    let (layer, events) = (Layer::Number(2), logged(&run));
    let failed = events.iter().find_map(|it| match it {
        PipelineEvent::AgentFailed { layer, agent_id, reason } => Some((*layer, agent_id, reason)),
        _ => None,
    });
    let (failed_layer, agent_id, reason) = failed.unwrap();
    assert_eq!((failed_layer, agent_id.as_str()), (layer, "analyst_2"));
    assert!(reason.contains("the key was revoked"), "{reason}");
    let completed = |it: &&PipelineEvent| match it {
        PipelineEvent::AgentComplete { agent_id, .. } => agent_id == "analyst_2",
        _ => false,
    };
    assert!(!events.iter().any(|it| completed(&it)));
    let status_of = |wanted| {
        events.iter().find_map(|it| match it {
            PipelineEvent::LayerComplete { layer, status, .. } if *layer == wanted => Some(*status),
            _ => None,
        })
    };
    assert_eq!(status_of(layer), Some(LayerStatus::Incomplete));
    assert_eq!(status_of(Layer::Number(1)), Some(LayerStatus::Done));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_exist_when_they_are_announced() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path(), run_config(2, 1)).unwrap();
    let mut announced = Vec::new();
    let running = run.resume(resume_options(), |it| {
        let names = match &it.event {
            PipelineEvent::AgentComplete { outputs, .. } => outputs,
            PipelineEvent::LayerComplete { artifacts, .. } => artifacts,
            _ => return,
        };
        announced.extend(names.iter().map(|it| (it.clone(), folder.path().join(it).is_file())));
    });
    running.await.unwrap();
    for name in ["financial.md", "news-narrated.md", "F1.md", "F2.md", "m1.md", "m2.md"] {
        assert!(announced.iter().any(|(it, _)| it == name), "{name}: {announced:?}");
    }
    assert!(announced.iter().all(|(_, exists)| *exists), "{announced:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn debates_without_isolation_are_announced_once() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path(), run_config(2, 1)).unwrap();
    finish(&run, resume_options()).await;
    let degraded: Vec<_> = logged(&run)
        .into_iter()
        .filter(|it| matches!(it, PipelineEvent::SandboxDegraded { .. }))
        .collect();
    let [PipelineEvent::SandboxDegraded { move_id: None, backend, reason, .. }] =
        degraded.as_slice()
    else {
        panic!("{degraded:?}")
    };
    assert_eq!((backend.as_str(), reason.as_str()), ("in-process", "isolation is off"));
}

#[tokio::test(flavor = "multi_thread")]
async fn budget_warnings_state_the_used_share() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("whole"), run_config(1, 10)).unwrap();
    let (report, _) = finish(&run, resume_options()).await;
    let percents = |run: &Run| -> Vec<u64> {
        let events = logged(run).into_iter();
        let percents = events.filter_map(|it| match it {
            PipelineEvent::BudgetWarning { percent } => Some(percent),
            _ => None,
        });
        percents.collect()
    };
    assert_eq!(percents(&run), [0; 0]);
    let used = SpendingEntry::total(&report.outcome.spending);
    let tokens = (used.input_tokens + used.output_tokens) * 118 / 100;
    let run = Run::create(folder.path().join("limited"), run_config(1, 10)).unwrap();
    let limit = Limit { tokens: Some(tokens), money: None };
    finish(&run, ResumeOptions { limit, ..resume_options() }).await;
    assert_eq!(percents(&run), [80]);
}

#[test]
fn degradations_name_their_move_and_those_of_older_versions_are_read() {
    let older = json!({ "type": "sandbox_degraded", "backend": "jail", "isolation": "process", "reason": "no VM" });
    let event: PipelineEvent = serde_json::from_value(older.clone()).unwrap();
    assert_eq!(event.move_id(), None);
    assert_eq!(json!(event), older);
    let mut newer = older;
    newer["move"] = "m3".into();
    let event: PipelineEvent = serde_json::from_value(newer.clone()).unwrap();
    assert_eq!(event.move_id(), Some("m3"));
    assert_eq!(json!(event), newer);
}

/// A process can die after it has stored the result of a debate and before it has logged the last events of the debate.
#[tokio::test(flavor = "multi_thread")]
async fn events_that_a_crash_lost_are_logged_when_the_run_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path(), run_config(2, 1)).unwrap();
    let (second_debate, started) = oneshot::channel();
    let second_debate = Mutex::new(Some(second_debate));
    let running = run.resume(resume_options(), |it| {
        if matches!(&it.event, PipelineEvent::SandboxReady { move_id, .. } if move_id == "m2")
            && let Some(sender) = second_debate.lock().unwrap().take()
        {
            let _ = sender.send(());
        }
    });
    // The debates run one after the other, so the result of the first one is stored when the second one starts.
    tokio::select! {
        ended = running => panic!("{ended:?}"),
        started = started => started.unwrap(),
    }
    let path = folder.path().join("events.jsonl");
    let log = fs::read_to_string(&path).unwrap();
    let lost = log.lines().position(|it| it.contains("sandbox_scored")).unwrap();
    let kept: String = log.split_inclusive('\n').take(lost).collect();
    fs::write(&path, kept).unwrap();
    finish(&run, resume_options()).await;
    let events = logged(&run);
    for move_id in ["m1", "m2"] {
        let of_move: Vec<&PipelineEvent> =
            events.iter().filter(|it| it.move_id() == Some(move_id)).collect();
        let scored = |it: &&PipelineEvent| matches!(it, PipelineEvent::SandboxScored { .. });
        assert_eq!(of_move.iter().filter(|it| scored(it)).count(), 1, "{move_id}");
        assert!(scored(of_move.last().unwrap()), "{move_id}: {of_move:?}");
    }
}
