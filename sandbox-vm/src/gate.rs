//! The gate: what a graph in a guest may ask from outside, and the journal of what it was answered.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use graph_core::checkpoint::TaskId;
use serde_json::Value;
use tokio::{sync::watch, time::Instant};

use crate::protocol::message::{Call, Fault, FaultCode};

/// Makes calls to the outside for graphs in guests: it holds the keys that never enter one.
#[async_trait]
pub trait Outside: Send + Sync {
    /// Makes a call of this kind.
    async fn call(&self, kind: &str, request: Value) -> Result<Value, CallError>;
}

#[async_trait]
impl<F, Fut> Outside for F
where
    F: Fn(String, Value) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Value, CallError>> + Send,
{
    async fn call(&self, kind: &str, request: Value) -> Result<Value, CallError> {
        self(kind.to_owned(), request).await
    }
}

/// A call to the outside that failed.
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
/// gets the same answer. So give one gate to all runs of a thread.
///
/// ```
/// use sandbox_vm::{CallError, Gate};
/// use serde_json::{Value, json};
///
/// let gate = Gate::new(async |kind: String, request: Value| {
///     Ok::<_, CallError>(json!({ "kind": kind, "echo": request }))
/// })
/// .allow("llm.chat")
/// .budget(40)
/// .rate(10);
/// ```
#[derive(Clone)]
#[must_use]
pub struct Gate {
    outside: Arc<dyn Outside>,
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
    made: u64,
    /// When the next call may be made, for a gate with a rate.
    next: Option<Instant>,
    journal: BTreeMap<Key, watch::Receiver<Option<Answer>>>,
}

/// Names a call: the same when a task is run again by another guest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    thread: String,
    task: TaskId,
    key: String,
}

type Answer = Result<Value, CallError>;

impl Gate {
    /// A gate that lets nothing through yet.
    pub fn new(outside: impl Outside + 'static) -> Self {
        let rules = Rules {
            kinds: BTreeSet::new(),
            budget: None,
            per_second: None,
            max_request: 1 << 20,
            max_answer: 1 << 20,
            timeout: Duration::from_secs(600),
        };
        Self { outside: Arc::new(outside), rules, state: Arc::default() }
    }

    /// A gate that lets nothing through.
    pub fn closed() -> Self {
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

    /// Lets so many calls a second through; others wait for their turn.
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
    pub fn made(&self) -> u64 {
        self.state().made
    }

    /// Makes a guest's call, or gives the answer that the same call of the same task got before.
    ///
    /// The call itself is the gate's: it goes on to its end though the guest dies, because it is paid for.
    pub(crate) async fn pass(&self, thread: &str, call: Call) -> Result<Value, Fault> {
        self.check(&call)?;
        let key = Key { thread: thread.to_owned(), task: call.task, key: call.key.clone() };
        let mut answered = self.enter(&key, call)?;
        let answer = match answered.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone(),
            Err(_) => None,
        };
        match answer {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => {
                // An error is not kept: whoever tries again makes the call again.
                self.state().journal.remove(&key);
                let code = if error.terminal { FaultCode::Terminal } else { FaultCode::Failed };
                Err(Fault::new(code, error))
            }
            None => {
                self.state().journal.remove(&key);
                Err(Fault::new(FaultCode::Failed, "the call was lost; it may be made again"))
            }
        }
    }

    fn check(&self, call: &Call) -> Result<(), Fault> {
        if !self.rules.kinds.contains(&call.kind) {
            let kinds: Vec<_> = self.rules.kinds.iter().map(String::as_str).collect();
            let kinds = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
            let kind: String = call.kind.chars().take(100).collect();
            return Err(refused(format!(
                "calls of kind `{kind}` are not allowed; allowed are: {kinds}"
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
    fn enter(&self, key: &Key, call: Call) -> Result<watch::Receiver<Option<Answer>>, Fault> {
        let mut state = self.state();
        if let Some(known) = state.journal.get(key) {
            return Ok(known.clone());
        }
        if self.rules.budget.is_some_and(|it| state.made >= it) {
            let budget = self.rules.budget.unwrap_or_default();
            return Err(refused(format!("the budget of {budget} calls is used up")));
        }
        state.made += 1;
        let turn = state.turn(self.rules.per_second);
        let (sender, receiver) = watch::channel(None);
        state.journal.insert(key.clone(), receiver.clone());
        drop(state);
        let (outside, rules) = (self.outside.clone(), self.rules.clone());
        tokio::spawn(async move {
            tokio::time::sleep_until(turn).await;
            sender.send_replace(Some(make(&*outside, &rules, call).await));
        });
        Ok(receiver)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// When a call may be made: at once, or after those before it.
    fn turn(&mut self, per_second: Option<u32>) -> Instant {
        let now = Instant::now();
        let Some(per_second) = per_second else { return now };
        let turn = self.next.map_or(now, |it| it.max(now));
        self.next = Some(turn + Duration::from_secs(1) / per_second);
        turn
    }
}

async fn make(outside: &dyn Outside, rules: &Rules, call: Call) -> Answer {
    let made = tokio::time::timeout(rules.timeout, outside.call(&call.kind, call.request)).await;
    let answer =
        made.map_err(|_| CallError::new(format!("no answer within {:?}", rules.timeout)))??;
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

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("rules", &self.rules).field("made", &self.made()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use graph_core::checkpoint::{CheckpointId, TaskId};
    use serde_json::{Value, json};

    use super::{Call, CallError, FaultCode, Gate};

    fn call(task: &str, kind: &str) -> Call {
        Call {
            kind: kind.to_owned(),
            request: json!("hello"),
            key: format!("{kind}:1"),
            task: TaskId::of(&[task.as_bytes()]),
            node: "node".to_owned(),
            namespace: String::new(),
            checkpoint: CheckpointId::from_bytes([1; 16]),
        }
    }

    fn counting() -> (Gate, Arc<AtomicUsize>) {
        let made = Arc::new(AtomicUsize::new(0));
        let count = made.clone();
        let gate = Gate::new(move |_: String, _: Value| {
            let nth = count.fetch_add(1, Ordering::SeqCst);
            async move { Ok(json!(nth)) }
        });
        (gate.allow("llm.chat"), made)
    }

    #[tokio::test]
    async fn the_same_call_of_the_same_task_is_made_once() {
        let (gate, made) = counting();
        for _ in 0..3 {
            assert_eq!(gate.pass("t", call("a", "llm.chat")).await, Ok(json!(0)));
        }
        assert_eq!(gate.pass("t", call("b", "llm.chat")).await, Ok(json!(1)));
        assert_eq!(gate.pass("other", call("a", "llm.chat")).await, Ok(json!(2)));
        assert_eq!(made.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn a_call_whose_guest_dies_is_finished_and_answers_the_next_guest() {
        let (go, wait) = tokio::sync::watch::channel(false);
        let made = Arc::new(AtomicUsize::new(0));
        let count = made.clone();
        let gate = Gate::new(move |_: String, _: Value| {
            count.fetch_add(1, Ordering::SeqCst);
            let mut wait = wait.clone();
            async move {
                wait.wait_for(|it| *it).await.map_err(|_| CallError::new("gone"))?;
                Ok(json!("paid"))
            }
        })
        .allow("llm.chat");
        let first =
            tokio::time::timeout(Duration::from_millis(20), gate.pass("t", call("a", "llm.chat")));
        assert!(first.await.is_err());
        go.send_replace(true);
        assert_eq!(gate.pass("t", call("a", "llm.chat")).await, Ok(json!("paid")));
        assert_eq!(made.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn what_is_not_allowed_too_much_or_too_large_is_refused() {
        let (gate, made) = counting();
        let gate = gate.budget(1).max_request(10);
        let code = |outcome: Result<Value, super::Fault>| outcome.unwrap_err().code;
        assert_eq!(code(gate.pass("t", call("a", "shell")).await), FaultCode::Refused);
        let large = Call { request: json!("x".repeat(20)), ..call("a", "llm.chat") };
        assert_eq!(code(gate.pass("t", large).await), FaultCode::Refused);
        assert!(gate.pass("t", call("a", "llm.chat")).await.is_ok());
        assert_eq!(code(gate.pass("t", call("b", "llm.chat")).await), FaultCode::Refused);
        assert_eq!(made.load(Ordering::SeqCst), 1);
        let (gate, _) = counting();
        let gate = gate.max_answer(0);
        assert_eq!(code(gate.pass("t", call("a", "llm.chat")).await), FaultCode::Terminal);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_beyond_the_rate_wait_for_their_turn() {
        let (gate, _) = counting();
        let gate = gate.rate(2);
        let started = tokio::time::Instant::now();
        for task in ["a", "b", "c"] {
            gate.pass("t", call(task, "llm.chat")).await.unwrap();
        }
        assert_eq!(started.elapsed(), Duration::from_secs(1));
    }
}
