//! Tests of the budget.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use llm::{
    Budget, Catalog, Error, ErrorKind, Llm, Money, Phase, Request, Response, Scripted, Usage,
    overflow::estimate_tokens,
};
use proptest::prelude::*;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{answer, error, fake, paused};

const SECOND: Duration = Duration::from_secs(1);

/// Returns the number of tokens that a call reserves.
fn reserved(request: &Request) -> u64 {
    estimate_tokens("anthropic", request) + u64::from(request.max_tokens)
}

#[tokio::test]
async fn actual_usage_is_charged() {
    let (llm, calls) = fake(|_, _| async { Ok(answer("here")) });
    let budget = Budget::of_both(10_000, Money::from_dollars(1.0));
    let llm = llm.budget(&budget);
    for _ in 0..5 {
        llm.generate("?").await.unwrap();
    }
    let spent = budget.spent();
    assert_eq!((spent.tokens, spent.money), (5_500, Money::from_dollars(0.0075)));
    // 4,500 tokens are left, and a call reserves 4,096 tokens plus those of its request, so one more call fits.
    llm.generate("?").await.unwrap();
    let error = llm.generate("?").await.unwrap_err();
    assert_eq!((error.kind, calls.load(Ordering::Relaxed)), (ErrorKind::Budget, 6));
    let needs = reserved(&Request::new("?"));
    assert_eq!(
        error.message,
        format!(
            "the call can cost up to {needs} tokens, and 6600 of 10000 tokens are already spent; \
             raise the budget or lower `max_tokens`"
        )
    );
    llm.generate(Request::new("?").max_tokens(100)).await.unwrap();
}

#[tokio::test]
async fn cost_comes_from_the_response_or_the_catalog() {
    let (llm, _) = fake(|number, _| async move {
        let cost = (number == 0).then_some(Money::from_dollars(0.25));
        Ok(Response { cost, ..answer("here") })
    });
    let budget = Budget::of_money(Money::from_dollars(0.30));
    let llm = llm.budget(&budget);
    llm.generate("?").await.unwrap();
    assert_eq!(budget.spent().money, Money::from_dollars(0.25));
    llm.generate("?").await.unwrap();
    assert_eq!(budget.spent().money, Money::from_dollars(0.2515));
    let error = llm.generate(Request::new("?").max_tokens(10_000)).await.unwrap_err();
    assert!(error.message.contains("$0.251500 of $0.300000 are already spent"), "{error}");
}

#[tokio::test]
async fn cost_of_cache_writes_is_reserved() {
    let (llm, calls) = fake(|_, _| async { Ok(answer("here")) });
    let request = Request::new("x".repeat(100_000)).max_tokens(1);
    let read = estimate_tokens("anthropic", &request);
    // The budget covers the price of reading the request, but not that of writing it to a prompt cache.
    let money = Money::from_dollars((read as f64 * 1.2 + 5.0) / 1e6);
    let error = llm.budget(&Budget::of_money(money)).generate(request).await.unwrap_err();
    assert_eq!((error.kind, calls.load(Ordering::Relaxed)), (ErrorKind::Budget, 0));
}

#[tokio::test]
async fn unknown_price_fails_money_budgets() {
    let (llm, calls) = fake(|_, _| async { Ok(answer("here")) });
    let nothing = Catalog::default();
    let in_money = Budget::of_money(Money::from_dollars(1e6)).priced_by(nothing.clone());
    let error = llm.clone().budget(&in_money).generate("?").await.unwrap_err();
    assert_eq!((error.kind, calls.load(Ordering::Relaxed)), (ErrorKind::Budget, 0));
    assert!(error.message.contains("price is unknown"), "{error}");
    let in_tokens = Budget::of_tokens(1_000_000).priced_by(nothing);
    llm.budget(&in_tokens).generate("?").await.unwrap();
    // The budget counts the cost that the response reports, although the catalog contains no price.
    assert_eq!(in_tokens.spent().money, Money::from_dollars(0.0015));
}

#[tokio::test]
async fn failed_calls_are_charged_unless_rejected() {
    let all = reserved(&Request::new("?"));
    let cases = [
        (ErrorKind::Auth, 0),
        (ErrorKind::RateLimited, 0),
        (ErrorKind::Overloaded, 0),
        (ErrorKind::BadRequest, 0),
        (ErrorKind::RequestTooLong, 0),
        (ErrorKind::Unreachable, 0),
        (ErrorKind::Timeout(Phase::Connect), 0),
        (ErrorKind::Timeout(Phase::FirstByte), all),
        (ErrorKind::Timeout(Phase::Idle), all),
        (ErrorKind::Truncated, all),
        (ErrorKind::ReasoningOnly, all),
        (ErrorKind::Malformed, all),
        (ErrorKind::Network, all),
        // The call may have succeeded although its recording could not be written.
        (ErrorKind::File, all),
    ];
    for (kind, expect) in cases {
        let (llm, _) = fake(move |_, _| async move { Err(error(kind)) });
        let budget = Budget::of_tokens(100_000);
        assert_eq!(llm.budget(&budget).generate("?").await.unwrap_err().kind, kind);
        assert_eq!(budget.spent().tokens, expect, "{kind:?}");
    }
}

#[tokio::test]
async fn errors_with_success_status_are_charged() {
    for (status, expect) in [(429, 0), (200, reserved(&Request::new("?")))] {
        let (llm, _) = fake(move |_, _| async move {
            Err(Error { status: Some(status), ..error(ErrorKind::RateLimited) })
        });
        let budget = Budget::of_tokens(100_000);
        llm.budget(&budget).generate("?").await.unwrap_err();
        assert_eq!(budget.spent().tokens, expect, "{status}");
    }
}

#[tokio::test]
async fn unreported_usage_is_charged_in_full() {
    let (llm, _) =
        fake(|_, _| async { Ok(Response { usage: None, cost: None, ..answer("here") }) });
    let budget = Budget::of_both(5_000, Money::from_dollars(1.0));
    let llm = llm.budget(&budget);
    llm.generate("?").await.unwrap();
    assert_eq!(budget.spent().tokens, reserved(&Request::new("?")));
    assert!(budget.spent().money > Money::from_dollars(4_096.0 * 5.0 / 1e6));
    assert_eq!(llm.generate("?").await.unwrap_err().kind, ErrorKind::Budget);
}

#[tokio::test]
async fn free_models_fit_any_budget() {
    let llm = Llm::new(Scripted::new("parrot", |_| "here"));
    let budget = Budget::of_money(Money::ZERO);
    llm.budget(&budget).generate("?").await.unwrap();
    assert_eq!(budget.spent().money, Money::ZERO);
}

#[tokio::test(start_paused = true)]
async fn dropped_call_is_charged_in_full() {
    let (llm, _) = slow();
    let budget = Budget::of_tokens(100_000);
    let call = timeout(SECOND / 2, llm.budget(&budget).generate("?")).await;
    assert!(call.is_err());
    assert_eq!(budget.spent().tokens, reserved(&Request::new("?")));
}

#[tokio::test(start_paused = true)]
async fn calls_wait_until_concurrent_calls_release_their_reservations() {
    let (llm, most) = slow();
    // The budget is enough for three reservations at a time, and for the actual usage of all ten calls.
    let budget = Budget::of_tokens(15_000);
    let llm = llm.budget(&budget);
    let mut calls = JoinSet::new();
    for _ in 0..10 {
        let llm = llm.clone();
        calls.spawn(async move { llm.generate("?").await });
    }
    let outcomes = calls.join_all().await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(budget.spent().tokens, 11_000);
    assert_eq!(most.load(Ordering::Relaxed), 3);
}

/// Returns a model that takes a second per call, and a counter with the maximum number of concurrent calls.
fn slow() -> (Llm, Arc<AtomicUsize>) {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let peak = most.clone();
    let (llm, _) = fake(move |_, _| {
        let running = running.clone();
        peak.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        async move {
            sleep(SECOND).await;
            running.fetch_sub(1, Ordering::Relaxed);
            Ok(answer("here"))
        }
    });
    (llm, most)
}

/// Plan for one call in a random schedule.
#[derive(Clone, Debug)]
struct Plan {
    comes_at: u64,
    takes: u64,
    max_tokens: u32,
    ends: End,
}

#[derive(Clone, Debug)]
enum End {
    /// The call is answered and uses this many thousandths of its reservation.
    Answered(u64),
    Refused,
    Cut,
    DroppedAfter(u64),
}

fn plan() -> impl Strategy<Value = Plan> {
    let ends = prop_oneof![
        6 => (0..=1_000u64).prop_map(End::Answered),
        1 => Just(End::Refused),
        1 => Just(End::Cut),
        2 => (1..2_000u64).prop_map(End::DroppedAfter),
    ];
    (0..2_000u64, 0..1_000u64, 1..3_000u32, ends)
        .prop_map(|(comes_at, takes, max_tokens, ends)| Plan { comes_at, takes, max_tokens, ends })
}

/// Result of a random schedule.
struct Ran {
    /// Cost of each call, in tokens. `None` for a call that did not reach the model.
    cost: Vec<Option<u64>>,
    outcomes: Vec<Option<Result<Response, Error>>>,
    budget: Budget,
}

/// Runs the calls. Each call uses `times` times the planned number of tokens.
async fn run(plans: &[Plan], budget: Budget, times: u64) -> Ran {
    let cost = Arc::new(Mutex::new(vec![None; plans.len()]));
    let (owned, log) = (plans.to_vec(), cost.clone());
    let (llm, _) = fake(move |_, prompt| {
        let number: usize = prompt.parse().unwrap();
        let plan = owned[number].clone();
        let all = reserved(&Request::new(prompt).max_tokens(plan.max_tokens));
        let note = |cost| log.lock().unwrap()[number] = Some(cost);
        let outcome = match plan.ends {
            End::Answered(uses) => {
                let output = all * uses / 1_000 * times;
                note(output);
                let usage = Some(Usage { output, ..Usage::default() });
                Ok(Response { usage, ..answer("here") })
            }
            End::Refused => {
                note(0);
                Err(error(ErrorKind::RateLimited))
            }
            End::Cut | End::DroppedAfter(_) => {
                note(all);
                Err(error(ErrorKind::Truncated))
            }
        };
        async move {
            sleep(Duration::from_millis(plan.takes)).await;
            outcome
        }
    });
    let llm = llm.budget(&budget);
    let mut calls = JoinSet::new();
    for (number, plan) in plans.iter().cloned().enumerate() {
        let llm = llm.clone();
        calls.spawn(async move {
            sleep(Duration::from_millis(plan.comes_at)).await;
            let request = Request::new(number.to_string()).max_tokens(plan.max_tokens);
            let limit = match plan.ends {
                End::DroppedAfter(millis) => Duration::from_millis(millis),
                _ => Duration::MAX,
            };
            (number, timeout(limit, llm.generate(request)).await.ok())
        });
    }
    let mut outcomes = calls.join_all().await;
    outcomes.sort_by_key(|it| it.0);
    let cost = cost.lock().unwrap().clone();
    Ran { cost, outcomes: outcomes.into_iter().map(|it| it.1).collect(), budget }
}

fn run_paused(plans: &[Plan], limit: u64, times: u64) -> Ran {
    // If a call waits forever, the paused clock advances to this timeout, so the test fails instead of hanging.
    let run = async {
        timeout(Duration::from_secs(3_600), run(plans, Budget::of_tokens(limit), times)).await
    };
    paused(run).expect("every call completes")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn spending_never_exceeds_the_budget(
        plans in prop::collection::vec(plan(), 1..40),
        limit in 1_000..40_000u64,
    ) {
        let ran = run_paused(&plans, limit, 1);
        let spent = ran.budget.spent().tokens;
        prop_assert!(spent <= limit, "{spent} of {limit}");
        prop_assert_eq!(spent, ran.cost.iter().flatten().sum::<u64>(), "spending is not exact");
        for (number, outcome) in ran.outcomes.iter().enumerate() {
            let Some(Err(error)) = outcome.as_ref().filter(|_| ran.cost[number].is_none()) else {
                continue;
            };
            // The reservation of a rejected call plus the final amount spent must exceed the limit.
            prop_assert_eq!(error.kind, ErrorKind::Budget);
            let request = Request::new(number.to_string()).max_tokens(plans[number].max_tokens);
            prop_assert!(spent + reserved(&request) > limit);
        }
    }

    #[test]
    fn wrong_estimates_overspend_only_by_concurrent_calls(
        plans in prop::collection::vec(plan(), 1..40),
        limit in 1_000..40_000u64,
    ) {
        // Each call uses up to three times its reservation, so the total is at most three times the limit.
        let ran = run_paused(&plans, limit, 3);
        let spent = ran.budget.spent().tokens;
        prop_assert!(spent <= 3 * limit, "{spent} of {limit}");
        prop_assert_eq!(spent, ran.cost.iter().flatten().sum::<u64>(), "spending is not exact");
    }
}
