//! Tests of the rate limiter.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use llm::{Backoff, ErrorKind, Llm, RateLimit, RateLimiter, Request, Response, Usage};
use proptest::prelude::*;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{answer, fake, paused, rate_limited};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a model with this latency, and a log of the time in milliseconds and the text of each call.
fn slow(takes: Duration) -> (Llm, Arc<Mutex<Vec<(u128, String)>>>) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (start, log) = (Instant::now(), calls.clone());
    let (llm, _) = fake(move |_, prompt| {
        log.lock().unwrap().push((start.elapsed().as_millis(), prompt));
        async move {
            sleep(takes).await;
            Ok(answer("here"))
        }
    });
    (llm, calls)
}

/// Makes `n` concurrent calls and returns the seconds at which the model was called, in order.
async fn seconds(llm: &Llm, call_log: &Mutex<Vec<(u128, String)>>, n: usize) -> Vec<u128> {
    let mut calls = JoinSet::new();
    for number in 0..n {
        let llm = llm.clone();
        calls.spawn(async move { llm.generate(number.to_string()).await });
    }
    for outcome in calls.join_all().await {
        outcome.unwrap();
    }
    let call_log = std::mem::take(&mut *call_log.lock().unwrap());
    let numbers: Vec<_> = call_log.iter().map(|it| it.1.parse::<usize>().unwrap()).collect();
    assert!(numbers.is_sorted(), "calls are not served in order of arrival: {numbers:?}");
    call_log.iter().map(|it| it.0 / 1_000).collect()
}

#[tokio::test(start_paused = true)]
async fn concurrency_is_limited() {
    let (llm, calls) = slow(SECOND);
    let llm = llm.rate_limit(&RateLimiter::new(RateLimit::new(3)));
    assert_eq!(seconds(&llm, &calls, 8).await, [0, 0, 0, 1, 1, 1, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn requests_per_minute_are_limited() {
    let (llm, calls) = slow(Duration::ZERO);
    let llm = llm.rate_limit(&RateLimiter::new(RateLimit::new(100).requests_per_minute(3)));
    assert_eq!(seconds(&llm, &calls, 7).await, [0, 0, 0, 61, 61, 61, 122]);
}

#[tokio::test(start_paused = true)]
async fn tokens_per_minute_are_limited() {
    // A call reserves 4,096 tokens plus those of its request, so two calls fit at first. Each call uses only 1,100
    // tokens in the end.
    let (llm, calls) = slow(SECOND);
    let llm = llm.rate_limit(&RateLimiter::new(RateLimit::new(100).tokens_per_minute(10_000)));
    assert_eq!(seconds(&llm, &calls, 7).await, [0, 0, 1, 2, 3, 4, 61]);
}

#[tokio::test(start_paused = true)]
async fn call_above_the_limit_runs_alone() {
    let (llm, calls) = slow(SECOND);
    let llm = llm.rate_limit(&RateLimiter::new(RateLimit::new(100).tokens_per_minute(10)));
    assert_eq!(seconds(&llm, &calls, 3).await, [0, 61, 122]);
}

#[tokio::test(start_paused = true)]
async fn models_share_a_rate_limiter() {
    let limiter = RateLimiter::new(RateLimit::new(1));
    let (llm, calls) = slow(SECOND);
    let (one, other) = (llm.clone().rate_limit(&limiter), llm.rate_limit(&limiter.clone()));
    let (first, second) = tokio::join!(one.generate("0"), other.generate("1"));
    assert!(first.is_ok() && second.is_ok());
    let times: Vec<_> = calls.lock().unwrap().iter().map(|it| it.0).collect();
    assert_eq!(times, [0, 1_000]);
}

#[tokio::test(start_paused = true)]
async fn dropped_calls_release_their_slots() {
    let (llm, calls) = slow(100 * SECOND);
    let llm = llm.rate_limit(&RateLimiter::new(RateLimit::new(1)));
    let running = timeout(2 * SECOND, llm.generate("0"));
    let waiting = async {
        sleep(Duration::from_millis(500)).await;
        timeout(SECOND, llm.generate("1")).await
    };
    let behind = async {
        sleep(Duration::from_millis(600)).await;
        llm.generate("2").await
    };
    let (running, waiting, behind) = tokio::join!(running, waiting, behind);
    assert!(running.is_err() && waiting.is_err() && behind.is_ok());
    assert_eq!(*calls.lock().unwrap(), [(0, "0".to_owned()), (2_000, "2".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn dropped_call_releases_response_tokens() {
    let (llm, calls) = slow(10 * SECOND);
    let llm = llm.rate_limit(&RateLimiter::new(RateLimit::new(9).tokens_per_minute(10_000)));
    let request = |prompt: &str| Request::new(prompt).max_tokens(9_000);
    assert!(timeout(SECOND, llm.generate(request("0"))).await.is_err());
    llm.generate(request("1")).await.unwrap();
    let times: Vec<_> = calls.lock().unwrap().iter().map(|it| it.0).collect();
    assert_eq!(times, [0, 1_000]);
}

#[tokio::test(start_paused = true)]
async fn unreported_tokens_count_in_full() {
    let (llm, _) = fake(|_, _| async { Ok(Response { usage: None, ..answer("here") }) });
    let llm = llm.rate_limit(&RateLimiter::new(RateLimit::new(9).tokens_per_minute(10_000)));
    let start = Instant::now();
    for _ in 0..2 {
        llm.generate(Request::new("?").max_tokens(9_000)).await.unwrap();
    }
    assert!(start.elapsed() >= 59 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn requested_pause_applies_to_all_calls() {
    let (times, start) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
    let log = times.clone();
    let (llm, calls) = fake(move |number, _| {
        log.lock().unwrap().push(start.elapsed().as_secs());
        async move { if number == 0 { Err(rate_limited(20 * SECOND)) } else { Ok(answer("here")) } }
    });
    let llm = llm
        .rate_limit(&RateLimiter::new(RateLimit::new(1)))
        .retry(Backoff::default().random(|| 0.0));
    let mut all = JoinSet::new();
    for _ in 0..5 {
        let llm = llm.clone();
        all.spawn(async move { llm.generate("?").await });
    }
    assert!(all.join_all().await.iter().all(Result::is_ok));
    assert_eq!(calls.load(Ordering::Relaxed), 6);
    assert_eq!(*times.lock().unwrap(), [0, 20, 20, 20, 20, 20]);
}

#[tokio::test(start_paused = true)]
async fn long_pause_is_an_error() {
    let (llm, calls) = fake(|_, _| async { Err(rate_limited(Duration::MAX)) });
    let llm = llm.rate_limit(&RateLimiter::new(RateLimit::new(1)));
    assert_eq!(llm.generate("?").await.unwrap_err().message, "as the test says");
    let error = llm.generate("?").await.unwrap_err();
    assert_eq!((error.kind, calls.load(Ordering::Relaxed)), (ErrorKind::RateLimited, 1));
    assert!(error.retry_after > Some(300 * 24 * 3_600 * SECOND));
    assert!(error.message.contains("raise `max_wait`"), "{error}");
}

/// Plan for one call in a random schedule.
#[derive(Clone, Debug)]
struct Plan {
    comes_after: u64,
    takes: u64,
    max_tokens: u32,
    /// Number of tokens used, in thousandths of `max_tokens`.
    uses: u64,
    dropped_after: Option<u64>,
}

prop_compose! {
    fn plan()(
        comes_after in 1..4_000u64,
        takes in 0..30_000u64,
        max_tokens in 1..3_000u32,
        uses in 0..=1_000u64,
        dropped_after in prop::option::weighted(0.3, 1..100_000u64),
    ) -> Plan {
        Plan { comes_after, takes, max_tokens, uses, dropped_after }
    }
}

/// A call that reached the model.
#[derive(Clone, Copy, Debug)]
struct Seen {
    number: usize,
    at: Duration,
    used: u64,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn limits_hold_for_random_schedules(
        plans in prop::collection::vec(plan(), 1..60),
        concurrency in 1..6usize,
        requests in 1..30u64,
        tokens in 1_000..20_000u64,
    ) {
        let limit = RateLimit::new(concurrency).requests_per_minute(requests).tokens_per_minute(tokens);
        let (seen, most, done) = paused(run(&plans, limit, tokens));
        let kept = plans.iter().filter(|it| it.dropped_after.is_none()).count();
        prop_assert!(done >= kept, "only {done} of {kept} calls that were not dropped were answered");
        prop_assert!(most <= concurrency, "{most} concurrent calls");
        prop_assert!(seen.is_sorted_by_key(|it| it.number), "calls are out of order: {seen:?}");
        for (nth, first) in seen.iter().enumerate() {
            let minute = seen[nth..].iter().take_while(|it| it.at - first.at < 60 * SECOND);
            let (count, used) = minute.fold((0, 0), |sum, it| (sum.0 + 1, sum.1 + it.used));
            prop_assert!(count <= requests, "{count} requests in a minute");
            prop_assert!(used <= tokens, "{used} tokens in a minute");
        }
    }
}

/// Runs the calls. Returns the calls that reached the model, the maximum concurrency, and the number of answered calls.
async fn run(plans: &[Plan], limit: RateLimit, tokens: u64) -> (Vec<Seen>, usize, usize) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (start, owned) = (Instant::now(), plans.to_vec());
    let (log, now, peak) = (seen.clone(), running, most.clone());
    let (llm, _) = fake(move |_, prompt| {
        let number: usize = prompt.parse().unwrap();
        let plan = owned[number].clone();
        // Responses have at most `max_tokens` tokens, so no call uses more than it reserved.
        let used = (u64::from(plan.max_tokens) * plan.uses / 1_000).min(tokens);
        let (log, at) = (log.clone(), start.elapsed());
        let running = Running::new(&now, &peak);
        async move {
            log.lock().unwrap().push(Seen { number, at, used });
            sleep(Duration::from_millis(plan.takes)).await;
            drop(running);
            let usage = Some(Usage { output: used, ..Usage::default() });
            Ok(Response { usage, ..answer("here") })
        }
    });
    let llm = llm.rate_limit(&RateLimiter::new(limit));
    let mut calls = JoinSet::new();
    let mut comes = Duration::ZERO;
    for (number, plan) in plans.iter().enumerate() {
        comes += Duration::from_millis(plan.comes_after);
        let request = Request::new(number.to_string()).max_tokens(plan.max_tokens);
        let (llm, comes) = (llm.clone(), comes);
        let dropped_after = Duration::from_millis(plan.dropped_after.unwrap_or(u64::MAX / 2));
        calls.spawn(async move {
            sleep(comes).await;
            timeout(dropped_after, llm.generate(request)).await.is_ok()
        });
    }
    let done = calls.join_all().await.into_iter().filter(|it| *it).count();
    let mut seen = seen.lock().unwrap().clone();
    // For a dropped call, the limiter counts only the request tokens, which this test ignores.
    seen.iter_mut()
        .filter(|it| plans[it.number].dropped_after.is_some())
        .for_each(|it| it.used = 0);
    (seen, most.load(Ordering::Relaxed), done)
}

/// Counts a call as running until this guard is dropped.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn new(now: &Arc<AtomicUsize>, peak: &AtomicUsize) -> Self {
        peak.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        Self(now.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
