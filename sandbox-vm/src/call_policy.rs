//! Decides which external calls a graph in a guest may make, and journals their answers.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use graph_core::checkpoint::{CheckpointKey, TaskId};
use serde_json::Value;
use tokio::{sync::watch, time::Instant};

use crate::{
    protocol::message::{ExternalCall, Fault, FaultCode},
    sync::lock,
};

/// Maximum length, in bytes, of a call's key, node name or namespace. Each of the three is checked separately.
const MAX_FIELD_LEN: usize = 4096;

/// Executes external calls on the host for graphs that run in guests. The executor holds the credentials, so they never
/// enter a guest.
#[async_trait]
pub trait CallExecutor: Send + Sync {
    /// Executes a call of kind `kind` and returns its answer.
    async fn call(&self, kind: &str, request: Value) -> Result<Value, CallError>;
}

#[async_trait]
impl<F, Fut> CallExecutor for F
where
    F: Fn(String, Value) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Value, CallError>> + Send,
{
    async fn call(&self, kind: &str, request: Value) -> Result<Value, CallError> {
        self(kind.to_owned(), request).await
    }
}

/// The error returned when an external call fails.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// The error message. It is sent to the guest, so it must not contain secrets.
    pub message: String,
    /// Whether the failure is permanent, so that a retry cannot succeed.
    pub terminal: bool,
}

graph_core::readable_debug!(CallError);

impl CallError {
    /// Creates an error for a temporary failure, after which the call may be retried.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), terminal: false }
    }

    /// Creates an error for a permanent failure.
    pub fn terminal(message: impl Into<String>) -> Self {
        Self { message: message.into(), terminal: true }
    }
}

/// Restricts the external calls that a graph in a guest may make, by kind, number, rate and size. Cheap to clone;
/// clones share the same state.
///
/// The policy also journals each answer under its thread, task and key. If a guest dies after a call but before the
/// checkpoint that stores the call's result, the replacement guest resumes from the last checkpoint, repeats the call
/// in the same task, and gets the same answer. For this to work, all runs of a thread must share one policy. The
/// answers are dropped when a run of the thread completes.
///
/// ```
/// use sandbox_vm::{CallError, CallPolicy};
/// use serde_json::{Value, json};
///
/// let policy = CallPolicy::new(async |kind: String, request: Value| {
///     Ok::<_, CallError>(json!({ "kind": kind, "echo": request }))
/// })
/// .allow("llm.chat")
/// .budget(40)
/// .rate(10);
/// ```
#[derive(Clone)]
#[must_use]
pub struct CallPolicy {
    executor: Arc<dyn CallExecutor>,
    rules: Rules,
    // This is a std mutex because it is held only briefly and never across an await.
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Debug)]
struct Rules {
    kinds: BTreeSet<String>,
    budget: Option<u64>,
    per_second: Option<u32>,
    max_request: usize,
    max_answer: usize,
    timeout: Duration,
}

#[derive(Debug, Default)]
struct State {
    calls_made: u64,
    /// Earliest time at which the next call may start, if the rate is limited.
    next_slot: Option<Instant>,
    journal: BTreeMap<CallId, JournalEntry>,
}

/// A call that is in flight or has been answered.
#[derive(Debug)]
struct JournalEntry {
    answer: watch::Receiver<Option<Answer>>,
    /// Checkpoint under which the host last stored the answer.
    recorded: Option<CheckpointKey>,
}

/// Identifies a call. When another guest repeats a task, the calls of that task get the same ids again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallId {
    pub(crate) thread: String,
    pub(crate) task: TaskId,
    pub(crate) key: String,
}

impl CallId {
    /// Returns the id of `call`, made in thread `thread`.
    pub(crate) fn of(thread: &str, call: &ExternalCall) -> Self {
        Self { thread: thread.to_owned(), task: call.task, key: call.key.clone() }
    }
}

type Answer = Result<Value, CallError>;

impl CallPolicy {
    /// Creates a policy that allows no calls until [`allow`](Self::allow) is used.
    pub fn new(executor: impl CallExecutor + 'static) -> Self {
        let rules = Rules {
            kinds: BTreeSet::new(),
            budget: None,
            per_second: None,
            max_request: 1 << 20,
            max_answer: 1 << 20,
            timeout: Duration::from_secs(600),
        };
        Self { executor: Arc::new(executor), rules, state: Arc::default() }
    }

    /// Creates a policy that allows no calls.
    pub fn deny_all() -> Self {
        Self::new(async |kind: String, _: Value| Err(CallError::terminal(format!("`{kind}`"))))
    }

    /// Allows calls of kind `kind`.
    pub fn allow(mut self, kind: impl Into<String>) -> Self {
        self.rules.kinds.insert(kind.into());
        self
    }

    /// Limits the total number of calls, over all kinds and all runs.
    pub fn budget(mut self, calls: u64) -> Self {
        self.rules.budget = Some(calls);
        self
    }

    /// Limits the number of calls per second. Calls beyond that rate are delayed, not refused.
    pub fn rate(mut self, per_second: u32) -> Self {
        self.rules.per_second = Some(per_second.max(1));
        self
    }

    /// Limits the size of a request in bytes; the default is 1 MiB.
    pub fn max_request(mut self, bytes: usize) -> Self {
        self.rules.max_request = bytes;
        self
    }

    /// Limits the size of an answer in bytes; the default is 1 MiB.
    pub fn max_answer(mut self, bytes: usize) -> Self {
        self.rules.max_answer = bytes;
        self
    }

    /// Limits the duration of each call; the default is ten minutes.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.rules.timeout = limit;
        self
    }

    /// Returns the number of calls made so far.
    pub fn calls_made(&self) -> u64 {
        self.state().calls_made
    }

    /// Returns the maximum size of an answer in bytes.
    pub(crate) fn max_answer_bytes(&self) -> usize {
        self.rules.max_answer
    }

    /// Returns the number of calls in the journal.
    #[cfg(test)]
    pub(crate) fn journal_len(&self) -> usize {
        self.state().journal.len()
    }

    /// Drops the journaled answers of a thread. This happens automatically when a run completes. Call this function
    /// only for a thread that will never be resumed.
    pub fn forget_thread(&self, thread: &str) {
        self.state().journal.retain(|id, _| id.thread != thread);
    }

    /// Executes a guest's call. If the same task has already made the same call, returns the earlier answer instead.
    ///
    /// The call runs in its own tokio task and completes even if the guest dies, because the call may already have been
    /// paid for.
    pub(crate) async fn execute(&self, id: &CallId, call: ExternalCall) -> Result<Value, Fault> {
        self.check(&call)?;
        let mut answer = self.find_or_start(id, call)?;
        let answer = match answer.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone(),
            Err(_) => None,
        };
        match answer {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => {
                let code = if error.terminal { FaultCode::Terminal } else { FaultCode::Failed };
                Err(Fault::new(code, error))
            }
            None => Err(Fault::new(FaultCode::Failed, "the call got no answer; retry it")),
        }
    }

    /// Returns whether the answer to a call is already stored under this checkpoint.
    pub(crate) fn is_recorded(&self, id: &CallId, checkpoint: &CheckpointKey) -> bool {
        let state = self.state();
        state.journal.get(id).is_some_and(|it| it.recorded.as_ref() == Some(checkpoint))
    }

    /// Records that the answer to a call is now stored under this checkpoint.
    pub(crate) fn mark_recorded(&self, id: &CallId, checkpoint: CheckpointKey) {
        if let Some(entry) = self.state().journal.get_mut(id) {
            entry.recorded = Some(checkpoint);
        }
    }

    fn check(&self, call: &ExternalCall) -> Result<(), Fault> {
        if !self.rules.kinds.contains(&call.kind) {
            let kinds: Vec<_> = self.rules.kinds.iter().map(String::as_str).collect();
            let kinds = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
            let kind: String = call.kind.chars().take(100).collect();
            return Err(refused(format!(
                "calls of kind `{kind}` are not allowed; allowed kinds: {kinds}"
            )));
        }
        if [&call.key, &call.node, &call.namespace].iter().any(|it| it.len() > MAX_FIELD_LEN) {
            return Err(refused(format!(
                "the key, node or namespace of a call has more than {MAX_FIELD_LEN} bytes"
            )));
        }
        let size = call.request.to_string().len();
        if size > self.rules.max_request {
            let max = self.rules.max_request;
            return Err(refused(format!(
                "the request has {size} bytes; at most {max} are allowed"
            )));
        }
        Ok(())
    }

    /// Returns a receiver for the answer to a call. Starts the call unless the journal already has an entry for it,
    /// whether answered or still in flight.
    fn find_or_start(
        &self,
        id: &CallId,
        call: ExternalCall,
    ) -> Result<watch::Receiver<Option<Answer>>, Fault> {
        let mut state = self.state();
        if let Some(entry) = state.journal.get(id) {
            return Ok(entry.answer.clone());
        }
        if self.rules.budget.is_some_and(|it| state.calls_made >= it) {
            let budget = self.rules.budget.unwrap_or_default();
            return Err(refused(format!("the budget of {budget} calls is exhausted")));
        }
        state.calls_made += 1;
        let slot = state.reserve_slot(self.rules.per_second);
        let (sender, receiver) = watch::channel(None);
        state.journal.insert(id.clone(), JournalEntry { answer: receiver.clone(), recorded: None });
        drop(state);
        let mut in_flight = InFlightCall {
            policy: self.clone(),
            id: id.clone(),
            answer: receiver.clone(),
            is_answered: false,
        };
        tokio::spawn(async move {
            tokio::time::sleep_until(slot).await;
            let policy = &in_flight.policy;
            let answer = execute_call(&*policy.executor, &policy.rules, call).await;
            in_flight.is_answered = answer.is_ok();
            // Remove the journal entry before the error is published, so that an immediate retry starts a new call.
            drop(in_flight);
            sender.send_replace(Some(answer));
        });
        Ok(receiver)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// A call that is being executed. Dropping this value before there is an answer removes the call's journal entry, so
/// that a retry makes the call again.
struct InFlightCall {
    policy: CallPolicy,
    id: CallId,
    answer: watch::Receiver<Option<Answer>>,
    is_answered: bool,
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        let mut state = self.policy.state();
        let entry = state.journal.get(&self.id);
        // If the thread was forgotten in the meantime, the entry with this id may belong to a newer call.
        let is_own = entry.is_some_and(|it| it.answer.same_channel(&self.answer));
        if is_own && !self.is_answered {
            state.journal.remove(&self.id);
        }
    }
}

impl State {
    /// Reserves a start time for the next call: now, or the first free slot after all calls that were scheduled
    /// earlier.
    fn reserve_slot(&mut self, per_second: Option<u32>) -> Instant {
        let now = Instant::now();
        let Some(per_second) = per_second else { return now };
        let slot = self.next_slot.map_or(now, |it| it.max(now));
        self.next_slot = Some(slot + Duration::from_secs(1) / per_second);
        slot
    }
}

async fn execute_call(executor: &dyn CallExecutor, rules: &Rules, call: ExternalCall) -> Answer {
    let result = tokio::time::timeout(rules.timeout, executor.call(&call.kind, call.request)).await;
    let answer =
        result.map_err(|_| CallError::new(format!("no answer within {:?}", rules.timeout)))??;
    let size = answer.to_string().len();
    if size > rules.max_answer {
        let max = rules.max_answer;
        return Err(CallError::terminal(format!(
            "the answer has {size} bytes; at most {max} are allowed"
        )));
    }
    Ok(answer)
}

fn refused(problem: String) -> Fault {
    Fault::new(FaultCode::Refused, problem)
}

impl fmt::Debug for CallPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallPolicy")
            .field("rules", &self.rules)
            .field("calls_made", &self.calls_made())
            .finish()
    }
}
