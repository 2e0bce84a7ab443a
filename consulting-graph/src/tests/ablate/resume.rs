//! Interrupted ablations, budgets and models by role.

use std::{
    fs,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use llm::{
    Error, Listener, Llm, Model, ModelId, RecordMode, Recording, Request, Response, Scripted,
};
use tokio::sync::Notify;

use super::{create, execute, scripted};
use crate::{
    ablate::{AblationDir, AblationError, AblationSettings, Arm, ExecuteOptions},
    models::{Limit, ModelChoice},
};

const VERDICT: &str = r#"{"reason": "-", "flawed": true, "kind": "hidden_cost", "score": 4}"#;

/// A model that counts its calls, and never answers one of them.
#[derive(Debug)]
struct Counting {
    inner: Llm,
    calls: AtomicU64,
    /// Number of the call that is never answered.
    hangs_at: u64,
    hangs: Notify,
}

impl Counting {
    fn new(hangs_at: u64) -> Arc<Self> {
        let inner = Llm::new(Scripted::new("fixed", |_: &Request| VERDICT));
        Arc::new(Self { inner, calls: AtomicU64::new(0), hangs_at, hangs: Notify::new() })
    }

    fn options(self: &Arc<Self>) -> ExecuteOptions {
        let model_override = Some(Llm::new(Shared(self.clone())));
        ExecuteOptions { model_override, ..ExecuteOptions::default() }
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Shared(Arc<Counting>);

#[async_trait]
impl Model for Shared {
    fn id(&self) -> ModelId {
        self.0.inner.id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        if self.0.calls.fetch_add(1, Ordering::Relaxed) + 1 == self.0.hangs_at {
            self.0.hangs.notify_one();
            pending::<()>().await;
        }
        self.0.inner.call(request, listener).await
    }
}

const ARMS: [Arm; 4] = [Arm::OneCall, Arm::SelfConsistency, Arm::Critique, Arm::Debate3];

#[tokio::test]
async fn an_interrupted_ablation_resumes_without_repeating_calls() {
    let [whole, broken] = [0, 1].map(|_| tempfile::tempdir().unwrap());
    let model = Counting::new(u64::MAX);
    let expected =
        execute(&create(whole.path(), scripted(&ARMS, 2, 2)).await, model.options()).await.unwrap();
    let calls = model.calls();
    // Interrupts the ablation in a debate, and in the verdicts of self-consistency.
    for hangs_at in [calls / 3, calls - 3] {
        let dir = broken.path().join(hangs_at.to_string());
        let ablation = create(&dir, scripted(&ARMS, 2, 2)).await;
        let model = Counting::new(hangs_at);
        tokio::select! {
            _ = execute(&ablation, model.options()) => panic!("the call was answered"),
            () = model.hangs.notified() => {}
        }
        let ablation = AblationDir::open(&dir).unwrap();
        let resumed = execute(&ablation, model.options()).await.unwrap();
        assert_eq!(resumed, expected);
        // The unanswered call is made again.
        assert_eq!(model.calls(), calls + 1);
        // A complete ablation makes no calls.
        assert_eq!(execute(&ablation, model.options()).await.unwrap(), expected);
        assert_eq!(model.calls(), calls + 1);
    }
}

#[tokio::test]
async fn a_budget_is_not_exceeded_and_can_be_raised() {
    let dir = tempfile::tempdir().unwrap();
    let ablation = create(dir.path(), scripted(&[Arm::OneCall, Arm::Critique], 6, 1)).await;
    let model = Counting::new(u64::MAX);
    let limited = |tokens| ExecuteOptions {
        limit: Limit { tokens: Some(tokens), money: None },
        ..model.options()
    };
    let partial = execute(&ablation, limited(40_000)).await.unwrap();
    let spent: u64 = partial.trials.iter().map(|it| it.tokens()).sum();
    assert!(partial.is_incomplete() && spent <= 40_000, "{spent}");
    assert!(partial.stop_reason.as_ref().unwrap().contains("budget"), "{:?}", partial.stop_reason);
    assert_eq!(partial.failures.len(), 1, "{:?}", partial.failures);
    let report = fs::read_to_string(dir.path().join("report.md")).unwrap();
    assert!(report.contains("INCOMPLETE") && report.contains("STOPPED EARLY"), "{report}");
    // The stored limit applies until it is raised.
    let calls = model.calls();
    assert!(execute(&ablation, model.options()).await.unwrap().is_incomplete());
    assert_eq!(model.calls(), calls);
    assert!(!execute(&ablation, limited(10_000_000)).await.unwrap().is_incomplete());
    assert_eq!(model.calls(), 6 * 2 * 3);
}

#[tokio::test]
async fn an_ablation_that_stops_early_has_complete_pairs_in_all_arms() {
    let arms = [Arm::OneCall, Arm::SelfConsistency, Arm::Debate3, Arm::Placebo];
    let [whole, limited] = [0, 1].map(|_| tempfile::tempdir().unwrap());
    let model = Counting::new(u64::MAX);
    let expected =
        execute(&create(whole.path(), scripted(&arms, 7, 1)).await, model.options()).await.unwrap();
    let tokens: u64 = expected.trials.iter().map(|it| it.tokens()).sum();
    let ablation = create(limited.path(), scripted(&arms, 7, 1)).await;
    let limit = Limit { tokens: Some(tokens / 2), money: None };
    let partial = execute(&ablation, ExecuteOptions { limit, ..model.options() }).await.unwrap();
    assert_eq!(partial.complete_pairs, 2, "{:?}", partial.stop_reason);
    // The recording also counts the calls of incomplete pairs.
    assert!(partial.total.calls > partial.arms.iter().map(|it| it.calls).sum::<u64>());
    // Trials that need a debate do not fail because the budget ended before it.
    assert_eq!(partial.failures.len(), 1, "{:?}", partial.failures);
    let limit = Limit { tokens: Some(2 * tokens), money: None };
    let resumed = execute(&ablation, ExecuteOptions { limit, ..model.options() }).await.unwrap();
    assert_eq!(resumed, expected);
}

#[tokio::test]
async fn an_incomplete_list_of_moves_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path(), scripted(&[Arm::OneCall], 2, 1)).await;
    let path = dir.path().join("moves.json");
    let moves: Vec<serde_json::Value> =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let swapped = [1, 0, 2, 3].map(|it: usize| moves[it].clone()).to_vec();
    for changed in [moves[..3].to_vec(), swapped] {
        fs::write(&path, serde_json::to_string(&changed).unwrap()).unwrap();
        let error = AblationDir::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("moves.json is invalid") && error.contains("2 pairs"), "{error}");
    }
    fs::write(&path, serde_json::to_string(&moves).unwrap()).unwrap();
    AblationDir::open(dir.path()).unwrap();
}

#[tokio::test]
async fn a_budget_without_results_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let ablation = create(dir.path(), scripted(&[Arm::OneCall], 2, 1)).await;
    let limit = Limit { tokens: Some(10), money: None };
    let options = ExecuteOptions { limit, ..ExecuteOptions::default() };
    let error = execute(&ablation, options).await.unwrap_err();
    assert!(matches!(error, AblationError::NoResults(ref it) if it.contains("budget")), "{error}");
}

#[tokio::test]
async fn the_critic_of_the_mixed_arm_has_another_model() {
    let dir = tempfile::tempdir().unwrap();
    let settings = AblationSettings {
        choice: ModelChoice {
            model: Some("one".to_owned()),
            ..ModelChoice::for_provider("ollama")
        },
        critics: None,
        critic_model: Some("other".to_owned()),
        limit: Limit { tokens: Some(10_000_000), money: None },
        ..scripted(&[Arm::OneCall, Arm::Debate1, Arm::Mixed], 2, 1)
    };
    let ablation = create(dir.path(), settings).await;
    let results = execute(&ablation, Counting::new(u64::MAX).options()).await.unwrap();
    assert_eq!(results.models["critic"], "ollama/one");
    assert_eq!(results.models["critic of the mixed arm"], "ollama/other");
    // Each of the four debates of three rounds has three turns of the critic.
    let calls = Recording::open(dir.path().join("calls.jsonl"), RecordMode::Replay).unwrap();
    let of_other = calls.paid_calls(0).filter(|it| it.0.model == "other").count();
    assert_eq!(of_other, 4 * 3);
}

#[tokio::test]
async fn only_directories_of_ablations_can_be_opened_and_only_empty_ones_created() {
    let dir = tempfile::tempdir().unwrap();
    let error = AblationDir::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("settings.json"), "{error}");
    fs::write(dir.path().join("settings.json"), "{}").unwrap();
    let error = AblationDir::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("is invalid"), "{error}");
    let settings = scripted(&[Arm::OneCall], 2, 1);
    let error = AblationDir::create(dir.path(), settings).await.unwrap_err().to_string();
    assert!(error.contains("not empty") && error.contains("--resume"), "{error}");
}
