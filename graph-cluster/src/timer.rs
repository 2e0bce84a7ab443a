//! Timers that suspend a node without a waiting process.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use graph_core::{Context, Interrupt, NodeError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The value of an interrupt that a cluster answers at the given time.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Timer {
    /// End of the timer, in milliseconds since the Unix epoch.
    #[serde(rename = "graph_cluster_sleep_until")]
    until: u64,
}

/// The answers to the pending timers of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sleep {
    /// End of the first timer, in milliseconds since the Unix epoch.
    pub(crate) until: u64,
    /// Answers to the timers that end at this time.
    pub(crate) answers: BTreeMap<String, Value>,
}

impl Sleep {
    /// Returns the time until the end of the timer.
    pub(crate) fn remaining(&self) -> Duration {
        let until = UNIX_EPOCH + Duration::from_millis(self.until);
        until.duration_since(SystemTime::now()).unwrap_or_default()
    }
}

/// Suspends a node on a cluster. The leg of the run ends, and the next leg starts after this time, so that no process
/// waits. As after any [interrupt](Context::interrupt), the node then runs again from its start; wrap external calls
/// that precede this call in [`Context::task`].
///
/// A run that also waits for an answer to another interrupt does not continue at the end of the timer, but when that
/// answer arrives. Another run of the thread may start in the meantime; the suspended run then fails.
///
/// Outside a cluster, the run is interrupted, and the caller resumes it with null.
///
/// ```
/// use std::time::Duration;
///
/// use graph_core::{Context, NodeError};
///
/// async fn remind(_: &(), cx: &Context) -> Result<(), NodeError> {
///     graph_cluster::sleep(cx, Duration::from_secs(24 * 3600)).await?;
///     println!("a day has passed");
///     Ok(())
/// }
/// ```
pub async fn sleep<C>(cx: &Context<C>, duration: Duration) -> Result<(), NodeError> {
    // The time is journaled, so the timer does not start again when the node runs again.
    let end = cx.now().await?.checked_add(duration);
    let end = end.and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    // PostgreSQL has no times after the year 294276.
    let until = end.map_or(u64::MAX, |it| it.as_millis() as u64).min(MAX_TIME);
    cx.interrupt(Timer { until })
}

/// The year 9999, in milliseconds since the Unix epoch.
const MAX_TIME: u64 = 253_370_764_800_000;

impl Timer {
    /// Returns the timer that an interrupt represents, or `None` for other interrupts.
    fn of(interrupt: &Interrupt) -> Option<Self> {
        Self::deserialize(&interrupt.value).ok()
    }
}

/// Returns whether an interrupt is a timer, which the cluster answers: see [`sleep`].
///
/// The results of runs, and the states of threads that a server returns, contain no timers. The events of a run and the
/// states that [`Thread::state`](graph_core::Thread::state) returns do.
///
/// ```
/// use graph_core::{Interrupt, ThreadState};
///
/// /// Returns the interrupts that wait for a person.
/// fn questions<S>(state: &ThreadState<S>) -> Vec<&Interrupt> {
///     state.interrupts().into_iter().filter(|it| !graph_cluster::is_timer(it)).collect()
/// }
/// ```
pub fn is_timer(interrupt: &Interrupt) -> bool {
    Timer::of(interrupt).is_some()
}

/// Returns how to continue a run whose pending interrupts are all timers.
pub(crate) fn pending_sleep(interrupts: &[Interrupt]) -> Option<Sleep> {
    let until = |it: &Interrupt| Some((Timer::of(it)?.until.min(MAX_TIME), it.id.clone()));
    let timers: Option<Vec<_>> = interrupts.iter().map(until).collect();
    let timers = timers?;
    let first = timers.iter().map(|(until, _)| *until).min()?;
    let ended = timers.into_iter().filter(|(until, _)| *until == first);
    Some(Sleep { until: first, answers: ended.map(|(_, id)| (id, Value::Null)).collect() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn interrupt(id: &str, value: Value) -> Interrupt {
        Interrupt { id: id.to_owned(), value, namespace: String::new() }
    }

    #[test]
    fn the_earliest_timer_determines_the_wait_unless_a_question_is_pending() {
        let timer = |id, until: u64| interrupt(id, json!({ "graph_cluster_sleep_until": until }));
        let question = interrupt("q", json!("Go on?"));
        assert_eq!(pending_sleep(&[]), None);
        assert_eq!(pending_sleep(&[timer("a", 5), question]), None);
        let slept = pending_sleep(&[timer("a", 5), timer("b", 3)]);
        let answers = BTreeMap::from([("b".to_owned(), Value::Null)]);
        assert_eq!(slept, Some(Sleep { until: 3, answers }));
    }
}
