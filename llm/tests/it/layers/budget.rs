//! The budget.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use llm::{
    Budget, Catalog, Error, ErrorKind, Llm, Money, Phase, Request, Response, Rule, Script,
    Scripted, Usage, overflow::estimate_tokens,
};
use proptest::prelude::*;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{answer, error, fake, id, paused};

const SECOND: Duration = Duration::from_secs(1);

/// What a request has, and so what a call with `max_tokens` reserves.
fn reserved(request: &Request) -> u64 {
    estimate_tokens("anthropic", request) + u64::from(request.max_tokens)
}

#[tokio::test]
async fn real_usage_is_what_counts() {
    let (llm, calls) = fake(|_, _| async { Ok(answer("here")) });
    let budget = Budget::of_both(10_000, Money::from_dollars(1.0));
    let llm = llm.budget(&budget);
    for _ in 0..5 {
        llm.generate("?").await.unwrap();
    }
    let spent = budget.spent();
    assert_eq!((spent.tokens, spent.money), (5_500, Money::from_dollars(0.0075)));
    // 4,500 are left, and another call may take 4,096 and its request: that fits once more.
    llm.generate("?").await.unwrap();
    let error = llm.generate("?").await.unwrap_err();
    assert_eq!((error.kind, calls.load(Ordering::Relaxed)), (ErrorKind::Budget, 6));
    let needs = reserved(&Request::new("?"));
    assert_eq!(
        error.message,
        format!(
            "the call can come to {needs} tokens, and 6600 of 10000 tokens are spent; \
             raise the budget, or ask for fewer tokens"
        )
    );
    llm.generate(Request::new("?").max_tokens(100)).await.unwrap();
}

#[tokio::test]
async fn money_is_counted_by_the_answer_or_by_the_catalog() {
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
    assert!(error.message.contains("$0.251500 of $0.300000 are spent"), "{error}");
}

#[tokio::test]
async fn what_a_prompt_cache_may_cost_is_reserved() {
    let (llm, calls) = fake(|_, _| async { Ok(answer("here")) });
    let request = Request::new("x".repeat(100_000)).max_tokens(1);
    let read = estimate_tokens("anthropic", &request);
    // Enough to read the request, not to write it to a cache.
    let money = Money::from_dollars((read as f64 * 1.2 + 5.0) / 1e6);
    let error = llm.budget(&Budget::of_money(money)).generate(request).await.unwrap_err();
    assert_eq!((error.kind, calls.load(Ordering::Relaxed)), (ErrorKind::Budget, 0));
}

#[tokio::test]
async fn an_unknown_price_is_no_price() {
    let (llm, calls) = fake(|_, _| async { Ok(answer("here")) });
    let nothing = Catalog::default();
    let in_money = Budget::of_money(Money::from_dollars(1e6)).priced_by(nothing.clone());
    let error = llm.clone().budget(&in_money).generate("?").await.unwrap_err();
    assert_eq!((error.kind, calls.load(Ordering::Relaxed)), (ErrorKind::Budget, 0));
    assert!(error.message.contains("its price is not known"), "{error}");
    let in_tokens = Budget::of_tokens(1_000_000).priced_by(nothing);
    llm.budget(&in_tokens).generate("?").await.unwrap();
    // What the answer says of its cost is told all the same.
    assert_eq!(in_tokens.spent().money, Money::from_dollars(0.0015));
}

#[tokio::test]
async fn failed_calls_cost_what_is_known() {
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
        // The call may have been answered, and only its recording not written.
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
async fn errors_inside_an_answer_are_paid_for() {
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
async fn usage_that_is_not_told_is_all_that_was_reserved() {
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
async fn models_that_cost_nothing_fit_every_budget() {
    let script = Script::new("parrot").rule(Rule::text("here"));
    let llm = Llm::new(Scripted::new(script).unwrap());
    let budget = Budget::of_money(Money::ZERO);
    llm.budget(&budget).generate("?").await.unwrap();
    assert_eq!(budget.spent().money, Money::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_paid_for() {
    let (llm, _) = slow();
    let budget = Budget::of_tokens(100_000);
    let call = timeout(SECOND / 2, llm.budget(&budget).generate("?")).await;
    assert!(call.is_err());
    assert_eq!(budget.spent().tokens, reserved(&Request::new("?")));
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_what_others_have_reserved() {
    let (llm, most) = slow();
    // Room for two reservations at once, and for what all ten use in the end.
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

/// A model that takes a second, and how many calls were with it at once.
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

/// How one call of a random run goes.
#[derive(Clone, Debug)]
struct Plan {
    comes_at: u64,
    takes: u64,
    max_tokens: u32,
    ends: End,
}

#[derive(Clone, Debug)]
enum End {
    /// With so many thousandths of what was reserved for it.
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

/// What became of the calls of a run.
struct Ran {
    /// By call: what it cost, if it got as far as the model.
    cost: Vec<Option<u64>>,
    outcomes: Vec<Option<Result<Response, Error>>>,
    budget: Budget,
}

/// Runs the calls; what they use is `times` what their plan says.
async fn run(plans: &[Plan], budget: Budget, times: u64) -> Ran {
    let cost = Arc::new(Mutex::new(vec![None; plans.len()]));
    let (owned, noted) = (plans.to_vec(), cost.clone());
    let (llm, _) = fake(move |_, words| {
        let number: usize = words.parse().unwrap();
        let plan = owned[number].clone();
        let all = reserved(&Request::new(words).max_tokens(plan.max_tokens));
        let note = |cost| noted.lock().unwrap()[number] = Some(cost);
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
            let patience = match plan.ends {
                End::DroppedAfter(millis) => Duration::from_millis(millis),
                _ => Duration::MAX,
            };
            (number, timeout(patience, llm.generate(request)).await.ok())
        });
    }
    let mut outcomes = calls.join_all().await;
    outcomes.sort_by_key(|it| it.0);
    let cost = cost.lock().unwrap().clone();
    Ran { cost, outcomes: outcomes.into_iter().map(|it| it.1).collect(), budget }
}

fn run_paused(plans: &[Plan], limit: u64, times: u64) -> Ran {
    // A call that waits for ever would make the clock run away, and end here.
    let run = async {
        timeout(Duration::from_secs(3_600), run(plans, Budget::of_tokens(limit), times)).await
    };
    paused(run).expect("every call comes to an end")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_no_more_is_spent_than_there_is(
        plans in prop::collection::vec(plan(), 1..40),
        limit in 1_000..40_000u64,
    ) {
        let ran = run_paused(&plans, limit, 1);
        let spent = ran.budget.spent().tokens;
        prop_assert!(spent <= limit, "{spent} of {limit}");
        prop_assert_eq!(spent, ran.cost.iter().flatten().sum::<u64>(), "to the last token");
        for (number, outcome) in ran.outcomes.iter().enumerate() {
            let Some(Err(error)) = outcome.as_ref().filter(|_| ran.cost[number].is_none()) else {
                continue;
            };
            // Whoever was refused would not have fitted beside what was spent in the end.
            prop_assert_eq!(error.kind, ErrorKind::Budget);
            let request = Request::new(number.to_string()).max_tokens(plans[number].max_tokens);
            prop_assert!(spent + reserved(&request) > limit);
        }
    }

    #[test]
    fn estimates_that_are_wrong_cost_what_calls_at_once_use_beyond_them(
        plans in prop::collection::vec(plan(), 1..40),
        limit in 1_000..40_000u64,
    ) {
        // Each uses up to three times what was reserved for it, so three times what there is in all.
        let ran = run_paused(&plans, limit, 3);
        let spent = ran.budget.spent().tokens;
        prop_assert!(spent <= 3 * limit, "{spent} of {limit}");
        prop_assert_eq!(spent, ran.cost.iter().flatten().sum::<u64>(), "to the last token");
    }
}

#[test]
fn budgets_in_money_are_exact() {
    let id = id();
    let entry = Catalog::builtin().entry(&id).unwrap();
    let one = entry.cost(&Usage { input: 1_000, output: 100, ..Usage::default() });
    assert_eq!(one, answer("here").cost);
}
