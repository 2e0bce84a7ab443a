//! The policy: what a graph in a guest may ask from executor, and the journal of what it was answered.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use graph_core::checkpoint::{Place, TaskId};
use serde_json::Value;
use tokio::{sync::watch, time::Instant};

use crate::protocol::message::{ExternalCall, Fault, FaultCode};

/// How long a call's key, node and namespace may each be.
const MAX_FIELD_LEN: usize = 4096;

/// Makes calls to the executor for graphs in guests: it holds the keys that never enter one.
#[async_trait]
pub trait CallExecutor: Send + Sync {
    /// Makes a call of this kind.
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

/// A call to the executor that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What went wrong; it goes into the guest, so it must hold no secret.
    pub message: String,
    /// Whether trying again cannot help.
    pub terminal: bool,
}

impl CallError {
    /// A failure that may pass.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), terminal: false }
    }

    /// A failure that will not.
    pub fn terminal(message: impl Into<String>) -> Self {
        Self { message: message.into(), terminal: true }
    }
}

/// Which calls a graph in a guest may make: kinds, how many, how fast, how large. Cheap to clone.
///
/// It also keeps what was answered, by thread, task and key. A guest may die between a call and the checkpoint that
/// stores its result; the new guest that goes on from the last checkpoint makes the same call in the same task, and
/// gets the same answer. So give one policy to all runs of a thread. When a run of the thread has come to its end the
/// answers are let go of.
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
    // A std mutex: held for a moment, never over an await.
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
    /// When the next call may be made, for a policy with a rate.
    next_slot: Option<Instant>,
    journal: BTreeMap<CallId, JournalEntry>,
}

/// A call that was answered, or is under way.
#[derive(Debug)]
struct JournalEntry {
    answer: watch::Receiver<Option<Answer>>,
    /// Where in the thread the answer was stored last.
    recorded: Option<Place>,
}

/// Names a call: the same when a task is run again by another guest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallId {
    pub(crate) thread: String,
    pub(crate) task: TaskId,
    pub(crate) key: String,
}

impl CallId {
    /// The name of a call of this thread.
    pub(crate) fn of(thread: &str, call: &ExternalCall) -> Self {
        Self { thread: thread.to_owned(), task: call.task, key: call.key.clone() }
    }
}

type Answer = Result<Value, CallError>;

impl CallPolicy {
    /// A policy that lets nothing through yet.
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

    /// A policy that lets nothing through.
    pub fn deny_all() -> Self {
        Self::new(async |kind: String, _: Value| Err(CallError::terminal(format!("`{kind}`"))))
    }

    /// Lets calls of this kind through.
    pub fn allow(mut self, kind: impl Into<String>) -> Self {
        self.rules.kinds.insert(kind.into());
        self
    }

    /// Lets so many calls through in all, of all kinds and in all runs.
    pub fn budget(mut self, calls: u64) -> Self {
        self.rules.budget = Some(calls);
        self
    }

    /// Lets so many calls a second through; others wait for their slot.
    pub fn rate(mut self, per_second: u32) -> Self {
        self.rules.per_second = Some(per_second.max(1));
        self
    }

    /// Lets requests of so many bytes through; a megabyte unless it is said.
    pub fn max_request(mut self, bytes: usize) -> Self {
        self.rules.max_request = bytes;
        self
    }

    /// Lets answers of so many bytes back; a megabyte unless it is said.
    pub fn max_answer(mut self, bytes: usize) -> Self {
        self.rules.max_answer = bytes;
        self
    }

    /// Gives each call so much time; ten minutes unless it is said.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.rules.timeout = limit;
        self
    }

    /// How many calls were made so far.
    pub fn calls_made(&self) -> u64 {
        self.state().calls_made
    }

    /// How many bytes an answer may have.
    pub(crate) fn max_answer_bytes(&self) -> usize {
        self.rules.max_answer
    }

    /// How many answers it keeps.
    #[cfg(all(test, feature = "testkit"))]
    pub(crate) fn journal_len(&self) -> usize {
        self.state().journal.len()
    }

    /// Lets go of the answers of a thread, as the end of a run does. For threads that nobody goes on with.
    pub fn forget_thread(&self, thread: &str) {
        self.state().journal.retain(|id, _| id.thread != thread);
    }

    /// Makes a guest's call, or gives the answer that the same call of the same task got before.
    ///
    /// The call itself is the policy's: it goes on to its end though the guest dies, because it is paid for.
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
            None => Err(Fault::new(FaultCode::Failed, "the call was lost; it may be made again")),
        }
    }

    /// Whether the answer of a call is known to be stored in this place of its thread.
    pub(crate) fn is_recorded(&self, id: &CallId, place: &Place) -> bool {
        let state = self.state();
        state.journal.get(id).is_some_and(|it| it.recorded.as_ref() == Some(place))
    }

    /// Notes that the answer of a call is stored in this place of its thread.
    pub(crate) fn mark_recorded(&self, id: &CallId, place: Place) {
        if let Some(entry) = self.state().journal.get_mut(id) {
            entry.recorded = Some(place);
        }
    }

    fn check(&self, call: &ExternalCall) -> Result<(), Fault> {
        if !self.rules.kinds.contains(&call.kind) {
            let kinds: Vec<_> = self.rules.kinds.iter().map(String::as_str).collect();
            let kinds = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
            let kind: String = call.kind.chars().take(100).collect();
            return Err(refused(format!(
                "calls of kind `{kind}` are not allowed; allowed are: {kinds}"
            )));
        }
        if [&call.key, &call.node, &call.namespace].iter().any(|it| it.len() > MAX_FIELD_LEN) {
            return Err(refused(format!(
                "a call's key, node and namespace may have {MAX_FIELD_LEN} bytes each"
            )));
        }
        let size = call.request.to_string().len();
        if size > self.rules.max_request {
            let max = self.rules.max_request;
            return Err(refused(format!("a request of {size} bytes; at most {max} are allowed")));
        }
        Ok(())
    }

    /// Finds the call in the journal, or starts it.
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
            return Err(refused(format!("the budget of {budget} calls is used up")));
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
            // First: whoever hears of an error may try again at once.
            drop(in_flight);
            sender.send_replace(Some(answer));
        });
        Ok(receiver)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is being made. Unless it is answered the journal forgets it: whoever tries again makes it again.
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
        // Since the thread was forgotten the name may be another call's.
        let is_own = entry.is_some_and(|it| it.answer.same_channel(&self.answer));
        if is_own && !self.is_answered {
            state.journal.remove(&self.id);
        }
    }
}

impl State {
    /// When a call may be made: at once, or after those before it.
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
            "an answer of {size} bytes; at most {max} are allowed"
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
