//! Aggregates the results of a benchmark.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use llm::Money;
use serde::Serialize;

use super::session_result::SessionResult;

/// Aggregated results of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub problems: usize,
    /// Number of sessions per problem.
    pub samples: usize,
    /// Number of sessions that were aborted by an error; they count as unsolved.
    pub broken: usize,
    /// Number of sessions solved within the first attempt, within the first two attempts, and so on.
    pub solved_by: Vec<usize>,
    /// Fraction of sessions that were solved by the first attempt.
    pub pass_at_1: f64,
    /// Fraction of sessions that were solved within the maximum number of attempts.
    pub pass_at_k: f64,
    /// Estimated probabilities that at least one of `k` independent first attempts succeeds. The element for `k` has
    /// index `k - 1`.
    pub independent: Vec<f64>,
    /// Average number of attempts per session.
    pub attempts: f64,
    pub calls: usize,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Total cost of the calls whose price is known.
    pub cost: Money,
    /// Median duration of a session, in milliseconds.
    pub latency_p50_ms: u64,
    /// 95th percentile of the duration of a session, in milliseconds.
    pub latency_p95_ms: u64,
    /// Number of failed attempts in each failure class.
    pub failures: BTreeMap<&'static str, usize>,
    /// Problems that no session solved.
    pub unsolved: Vec<String>,
}

impl Summary {
    /// Aggregates the results of sessions with up to `max_attempts` attempts each.
    pub fn of(results: &[SessionResult], max_attempts: u32) -> Self {
        let mut first = BTreeMap::<&str, Vec<bool>>::new();
        let mut solved = BTreeMap::<&str, bool>::new();
        let mut solved_by = vec![0; max_attempts as usize];
        let mut failures = BTreeMap::new();
        let (mut attempts, mut calls, mut input_tokens, mut output_tokens) = (0, 0, 0, 0);
        let mut cost = Money::ZERO;
        for it in results {
            let session = it.session.as_ref().ok();
            let outcome = session.and_then(|it| it.outcome.as_ref());
            let number = outcome.filter(|it| it.success).map(|it| it.attempts);
            first.entry(&it.problem).or_default().push(number == Some(1));
            *solved.entry(&it.problem).or_default() |= number.is_some();
            for by in number.into_iter().flat_map(|it| it..=max_attempts) {
                solved_by[by as usize - 1] += 1;
            }
            let Some(session) = session else { continue };
            attempts += session.history.len();
            calls += session.calls.len();
            for call in &session.calls {
                input_tokens += call.input;
                output_tokens += call.output;
                cost += call.cost.unwrap_or_default();
            }
            for failure in session.history.iter().filter_map(|it| it.failure.as_ref()) {
                *failures.entry(failure.class.name()).or_default() += 1;
            }
        }
        let samples = first.values().map(Vec::len).max().unwrap_or(0);
        let mut times: Vec<Duration> = results.iter().map(|it| it.elapsed).collect();
        times.sort_unstable();
        let share = |count: usize| count as f64 / results.len().max(1) as f64;
        Self {
            problems: first.len(),
            samples,
            broken: results.iter().filter(|it| it.session.is_err()).count(),
            pass_at_1: share(solved_by.first().copied().unwrap_or(0)),
            pass_at_k: share(solved_by.last().copied().unwrap_or(0)),
            independent: (1..=samples).map(|k| independent(&first, k)).collect(),
            solved_by,
            attempts: share(attempts),
            calls,
            input_tokens,
            output_tokens,
            cost,
            latency_p50_ms: percentile(&times, 50).as_millis() as u64,
            latency_p95_ms: percentile(&times, 95).as_millis() as u64,
            failures,
            unsolved: solved.iter().filter(|it| !it.1).map(|it| (*it.0).to_owned()).collect(),
        }
    }

    /// Formats the summary as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let sessions = self.problems * self.samples;
        let _ = writeln!(text, "{} problems, {} session(s) each", self.problems, self.samples);
        let k = self.solved_by.len();
        let share = |it: f64| format!("{:5.1} %", 100.0 * it);
        let _ = writeln!(
            text,
            "pass@1        {}  sessions solved at the first attempt",
            share(self.pass_at_1)
        );
        let _ = writeln!(
            text,
            "pass@{k}        {}  sessions solved within {k} attempts",
            share(self.pass_at_k)
        );
        for (idx, solved) in self.solved_by.iter().enumerate() {
            let _ = writeln!(text, "  by attempt {}: {solved} of {sessions}", idx + 1);
        }
        if self.samples > 1 {
            for (idx, estimate) in self.independent.iter().enumerate() {
                let _ = writeln!(text, "  {} independent sample(s): {}", idx + 1, share(*estimate));
            }
        }
        let _ = writeln!(text, "attempts      {:5.2}    on average", self.attempts);
        let _ = writeln!(
            text,
            "cost          {}, {} calls, {} tokens in, {} out",
            self.cost, self.calls, self.input_tokens, self.output_tokens
        );
        let (p50, p95) = (self.latency_p50_ms, self.latency_p95_ms);
        let _ = writeln!(text, "latency       p50 {p50} ms, p95 {p95} ms for a session");
        let classes: Vec<String> =
            self.failures.iter().map(|(class, count)| format!("{class} {count}")).collect();
        if !classes.is_empty() {
            let _ = writeln!(text, "failures      {}", classes.join(", "));
        }
        if !self.unsolved.is_empty() {
            let _ = writeln!(text, "unsolved      {}", self.unsolved.join(", "));
        }
        if self.broken > 0 {
            let _ = writeln!(text, "broken        {} sessions aborted by an error", self.broken);
        }
        text
    }
}

/// Returns the unbiased estimate of pass@k as defined by HumanEval: the probability that at least one of `k` samples is
/// correct, given that `right` of `n` samples were correct.
pub fn pass_at_k(n: usize, right: usize, k: usize) -> f64 {
    if n - right < k {
        return 1.0;
    }
    let wrong = ((n - right + 1)..=n).map(|it| 1.0 - k as f64 / it as f64).product::<f64>();
    1.0 - wrong
}

fn independent(first: &BTreeMap<&str, Vec<bool>>, k: usize) -> f64 {
    let each = first.values().map(|it| {
        let right = it.iter().filter(|it| **it).count();
        pass_at_k(it.len(), right, k.min(it.len()))
    });
    each.sum::<f64>() / first.len().max(1) as f64
}

/// Returns the smallest duration that at least `share` percent of the sorted durations do not exceed.
pub(super) fn percentile(sorted: &[Duration], share: usize) -> Duration {
    let rank = (sorted.len() * share).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{pass_at_k, percentile};

    #[test]
    fn pass_at_k_matches_enumeration() {
        // If two of five samples are correct, 3 of the 10 possible pairs contain neither of them, so pass@2 is 0.7.
        assert!((pass_at_k(5, 2, 2) - 0.7).abs() < 1e-12);
        assert!((pass_at_k(5, 2, 1) - 0.4).abs() < 1e-12);
        assert_eq!((pass_at_k(5, 0, 5), pass_at_k(5, 1, 5), pass_at_k(3, 3, 1)), (0.0, 1.0, 1.0));
    }

    #[test]
    fn percentiles_are_observed_values() {
        let times: Vec<_> = (1..=20).map(Duration::from_millis).collect();
        assert_eq!((percentile(&times, 50), percentile(&times, 95)), (times[9], times[18]));
        assert_eq!(percentile(&times[..1], 95), times[0]);
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }
}
