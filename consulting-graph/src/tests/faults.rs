//! Runs against a provider that fails. Whatever the provider does, a run ends, its report says what is missing, a
//! replay reproduces the report, and resuming the run after the provider has recovered leads to the same report as a
//! run without faults.

mod stand_in;

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::{StreamExt, stream};
use llm::Backoff;
use test_support::is_nightly;

use self::stand_in::{Bill, FAULTS, Fault, Injection, ROLES, Role, Scope, StandIn};
use super::run::{resume_options, run_config};
use crate::{
    event::{EventLog, PipelineEvent},
    models::CallLimits,
    report::{Outcome, Report, SpendingEntry},
    run::{ResumeOptions, Run, RunConfig, RunError, RunOutcome},
    score::ScoreSource,
};

/// Maximum duration of one execution. Only an execution that would never end exceeds it.
const TIMEOUT: Duration = Duration::from_secs(1200);

const RETRIES: u32 = 2;

/// Number of kinds of scopes: one call, one role, one layer, everything, everything after a call.
const SCOPES: usize = 5;

/// Number of concurrent runs. They wait for the provider and for the disk most of the time.
const CONCURRENT_RUNS: usize = 4;

fn config() -> RunConfig {
    let mut config = run_config(1, 2);
    config.choice.provider = "openai-compatible".to_owned();
    config.choice.model = Some("board".to_owned());
    config
}

fn options(provider: &StandIn) -> ResumeOptions {
    let backoff = Backoff::new(RETRIES).first_wait(Duration::from_millis(1));
    ResumeOptions {
        model_override: Some(provider.model()),
        call_limits: CallLimits { backoff, ..CallLimits::default() },
        concurrency: 2,
        ..resume_options()
    }
}

async fn execute(run: &Run, provider: &StandIn) -> Result<Report, RunError> {
    let running = run.resume(options(provider), |_| {});
    let ended = tokio::time::timeout(TIMEOUT, running).await.expect("the execution ends");
    match ended? {
        RunOutcome::Complete { report, .. } => Ok(*report),
        RunOutcome::AwaitingReview(_) => panic!("unexpected review"),
    }
}

/// Returns the report as JSON without the parts that faults change even if the results are the same: the spending, the
/// sources of the scores, and the warnings about findings that were requested one at a time.
pub(crate) fn without_spending(report: &Report) -> String {
    let mut report = report.clone();
    let Outcome { spending, spending_by_move, spending_by_round, .. } = &mut report.outcome;
    for all in [spending, spending_by_move, spending_by_round] {
        all.clear();
    }
    for it in report.outcome.scores.iter_mut().flat_map(|it| it.scores_by_agent.values_mut()) {
        it.score_source = ScoreSource::Schema;
    }
    report.outcome.warnings.retain(|it| !it.contains("requested one at a time"));
    report.json()
}

async fn check_replay(run: &Run, dir: &Path, report: &Report, injections: &[Injection]) {
    let replayed = run.replay(dir, resume_options(), |_| {}).await;
    let replayed = replayed.unwrap_or_else(|error| panic!("{injections:?}: {error}"));
    assert_eq!(replayed.report.json(), report.json(), "{injections:?}");
}

/// Checks that the report contains all calls that the provider charges for.
fn check_bill(report: &Report, provider: &StandIn, injections: &[Injection]) {
    let paid = SpendingEntry::total(&report.outcome.spending);
    let paid = Bill {
        calls: paid.calls,
        uncounted_calls: paid.uncounted_calls,
        input_tokens: paid.input_tokens,
        output_tokens: paid.output_tokens,
    };
    let bill = provider.bill();
    // The time limits are short if the provider hangs, so on a busy machine a call may time out before the provider
    // receives it or while the provider answers it.
    if injections.iter().any(|it| it.fault.hangs()) {
        assert!(paid.calls >= bill.calls, "{injections:?}: {paid:?} {bill:?}");
    } else {
        assert_eq!(paid, bill, "{injections:?}");
    }
}

/// Returns the result of a run without faults.
async fn clean() -> String {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), config()).unwrap();
    let provider = StandIn::start(Vec::new()).await.unwrap();
    let report = execute(&run, &provider).await.unwrap();
    assert!(!report.is_incomplete(), "{:?}", report.outcome.failures);
    without_spending(&report)
}

/// Returns the message of the error event of a run that failed.
fn error_event(run: &Run) -> String {
    let events = EventLog::read(&run.dir().join("events.jsonl")).unwrap();
    let message = events.into_iter().rev().find_map(|it| match it.event {
        PipelineEvent::PipelineError { message } => Some(message),
        _ => None,
    });
    message.unwrap()
}

/// Checks a run with these faults. Returns the report of the faulty execution, or its error.
async fn check(injections: Vec<Injection>, clean: &str) -> Result<Report, RunError> {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), config()).unwrap();
    let provider = StandIn::start(injections.clone()).await.unwrap();
    let first = execute(&run, &provider).await;
    match &first {
        Ok(report) => {
            if report.is_incomplete() {
                let text = report.markdown();
                let (top, _) = text.split_once("## Recommended").unwrap();
                assert!(top.contains("> **Incomplete: "), "{injections:?}: {top}");
            } else {
                assert_eq!(without_spending(report), clean, "{injections:?}");
            }
            check_bill(report, &provider, &injections);
            check_replay(&run, &folder.path().join("replay"), report, &injections).await;
        }
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("resume the run"), "{injections:?}: {error}");
            assert!(!error.contains("node `"), "{injections:?}: {error}");
            assert_eq!(error_event(&run), error, "{injections:?}");
        }
    }
    provider.recover();
    let report = execute(&run, &provider).await.unwrap();
    assert!(!report.is_incomplete(), "{injections:?}: {:?}", report.outcome.failures);
    assert_eq!(without_spending(&report), clean, "{injections:?}");
    check_bill(&report, &provider, &injections);
    let replay = folder.path().join("replay of the recovered run");
    check_replay(&run, &replay, &report, &injections).await;
    first
}

/// A generator of random numbers with a reproducible sequence (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    /// Returns an injection of a fault. `scope` is the kind of its scope, a number less than [`SCOPES`].
    fn injection(&mut self, fault: Fault, scope: usize) -> Injection {
        let scope = match scope {
            0 => Scope::Call(self.below(32)),
            1 => Scope::Role(ROLES[self.below(ROLES.len())]),
            2 => Scope::Debates,
            3 => Scope::Everything,
            _ => Scope::After(1 + self.below(16)),
        };
        let attempts = if self.below(2) == 0 { usize::MAX } else { 1 + self.below(6) };
        Injection { fault, scope, attempts }
    }
}

/// Checks random combinations of a fault and a scope, each for a random number of attempts. By default, the seed is
/// fixed, and the 50 combinations contain every fault and every kind of scope. With `GRAPH_NIGHTLY`, the seed is new,
/// and the 1,000 combinations contain every fault with every kind of scope.
#[tokio::test(flavor = "multi_thread")]
async fn runs_survive_random_faults() {
    let nightly = is_nightly();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |it| it.as_secs());
    let given = std::env::var("GRAPH_SEED").ok().and_then(|it| it.parse().ok());
    let seed: u64 = given.unwrap_or_else(|| if nightly { now() } else { 1 });
    println!("GRAPH_SEED={seed}");
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let clean = clean().await;
    let mut cases = Vec::new();
    for case in 0..if nightly { 1000 } else { 50 } {
        // In each pass over the faults, every fault gets the next kind of scope.
        let (fault, round) = (case % FAULTS.len(), case / FAULTS.len());
        let scope = (fault + round) % SCOPES;
        let mut injections = vec![random.injection(FAULTS[fault], scope)];
        if random.below(3) == 0 {
            let (fault, scope) = (random.below(FAULTS.len()), random.below(SCOPES));
            injections.push(random.injection(FAULTS[fault], scope));
        }
        cases.push(check(injections, &clean));
    }
    let ended: Vec<_> = stream::iter(cases).buffer_unordered(CONCURRENT_RUNS).collect().await;
    // The faults are not trivial: most runs do not complete at first.
    let incomplete = ended.iter().filter(|it| !matches!(it, Ok(it) if !it.is_incomplete())).count();
    assert!(incomplete > ended.len() / 4, "{incomplete} of {}", ended.len());
}

/// When the provider starts to fail, some decision makers may have answered the critic, and others not.
#[tokio::test(flavor = "multi_thread")]
async fn debates_end_if_the_provider_fails_after_any_call() {
    let clean = clean().await;
    let (first, last) = (5, 18);
    let cases = (first..=last).map(|calls| {
        let (fault, scope) = (Fault::ServerError, Scope::After(calls));
        check(vec![Injection { fault, scope, attempts: usize::MAX }], &clean)
    });
    let ended: Vec<_> = stream::iter(cases).buffer_unordered(CONCURRENT_RUNS).collect().await;
    for error in ended.into_iter().filter_map(Result::err) {
        let error = error.to_string();
        assert!(error.contains("injected status 500"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permanent_faults_of_one_role_fail_or_mark_the_run_incomplete() {
    let clean = clean().await;
    let mut cases = Vec::new();
    // `Ok`: the report is incomplete and names this place. `Err`: the run fails with this text in its error.
    for (role, expected) in [
        (Role::Synthesizer, Ok("financial_synthesizer")),
        (Role::Inference, Err("findings are missing")),
        (Role::Analyst, Err("no analyst delivered a move")),
        (Role::Critic, Err("the move was not debated")),
        (Role::Maker, Ok("m1, round 1, D1")),
        (Role::Scorer, Err("the move was not scored")),
    ] {
        let faults = [Fault::ServerError, Fault::Refusal, Fault::WrongSchema];
        let nightly_faults = [Fault::Huge, Fault::RefusalInFields, Fault::Echo];
        let nightly_faults = nightly_faults.into_iter().filter(|_| is_nightly());
        for fault in faults.into_iter().chain(nightly_faults) {
            let has_schema = matches!(role, Role::Inference | Role::Analyst | Role::Scorer);
            if fault == Fault::WrongSchema && !has_schema {
                continue;
            }
            let injection = Injection { fault, scope: Scope::Role(role), attempts: usize::MAX };
            let ended = check(vec![injection], &clean);
            cases.push(async move { (role, fault, expected, ended.await) });
        }
    }
    let mut ended = stream::iter(cases).buffer_unordered(CONCURRENT_RUNS);
    while let Some((role, fault, expected, ended)) = ended.next().await {
        match (ended, expected) {
            (Ok(report), Ok(place)) => {
                let places = report.outcome.failures.iter().any(|it| it.place == place);
                assert!(places, "{fault:?}: {:?}", report.outcome.failures);
            }
            (Err(error), Err(text)) => {
                assert!(error.to_string().contains(text), "{fault:?}: {error}");
            }
            (ended, _) => panic!("{role:?}, {fault:?}: {ended:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_failure_that_ended_the_run() {
    let injection =
        |fault, role| Injection { fault, scope: Scope::Role(role), attempts: usize::MAX };
    let injections =
        vec![injection(Fault::Empty, Role::Synthesizer), injection(Fault::Refusal, Role::Analyst)];
    let clean = clean().await;
    let error = check(injections, &clean).await.unwrap_err().to_string();
    let expected =
        "no analyst delivered a move, so there is nothing to debate; analyst_1 (Capital steward): ";
    assert!(error.starts_with(expected) && !error.contains("synthesizer"), "{error}");
    for (role, expected) in [
        (
            Role::Inference,
            "findings are missing, so no moves can be proposed: financial_inference (Financial inference): ",
        ),
        (Role::Critic, "no move was scored; m1: the move was not debated: round 1, critic"),
        (Role::Scorer, "no move was scored; m1: the move was not scored: scoring, D3 ("),
    ] {
        let injections = vec![injection(Fault::ServerError, role)];
        let error = check(injections, &clean).await.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
