//! Handles the host calls of a running graph, which store and load checkpoints and make external calls.
//!
//! A guest could name any thread and namespace in a call. Every call is therefore checked against the [`Access`] of the
//! run.

use std::sync::{Arc, Mutex};

use graph_core::checkpoint::{
    Checkpoint, CheckpointKey, CheckpointWrite, Checkpointer, HistoryQuery, Lease, TaskEvent,
    TaskRecord,
};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    access::Access,
    quota::{self, Quota},
};
use crate::{
    CallPolicy,
    call_policy::CallId,
    protocol::{
        encode_reply,
        message::{ExternalCall, Fault, FaultCode, HostCall},
    },
    session::Session,
    sync::lock,
};

/// Maximum number of checkpoints in a reply. The guest can request older checkpoints in later calls.
const MAX_PAGE_LEN: usize = 256;

/// Maximum total size, in bytes, of the checkpoints in a reply. It does not apply to a reply with a single checkpoint.
const MAX_PAGE_BYTES: u64 = 32 << 20;

/// Maximum number of concurrent checkpoint reads. Each read may need as much memory as the thread's whole state.
const MAX_CONCURRENT_READS: usize = 2;

/// Maximum total size, in bytes, of the answers to calls that are waiting to be sent to the guest. A call is made only
/// when there is space for its answer.
const MAX_ANSWER_BYTES: usize = 256 << 20;

#[derive(Debug)]
pub(crate) struct HostCallHandler {
    session: Session,
    access: Access,
    /// Stores the checkpoints, or `None` if they are not stored.
    saver: Option<Arc<dyn Checkpointer>>,
    policy: CallPolicy,
    quota: Quota,
    // This is a std mutex because it is held only briefly and never across an await.
    lease: Mutex<Option<Lease>>,
    read_slots: Semaphore,
    /// Has one permit for each byte of answers that may be waiting.
    answer_bytes: Semaphore,
}

impl HostCallHandler {
    pub(crate) fn new(
        session: Session,
        access: Access,
        saver: Option<Arc<dyn Checkpointer>>,
        policy: CallPolicy,
        quota: Quota,
    ) -> Self {
        let (read_slots, answer_bytes) =
            (Semaphore::new(MAX_CONCURRENT_READS), Semaphore::new(MAX_ANSWER_BYTES));
        Self {
            session,
            access,
            saver,
            policy,
            quota,
            lease: Mutex::new(None),
            read_slots,
            answer_bytes,
        }
    }

    pub(super) async fn handle(&self, id: u64, call: HostCall) {
        // Hold the permit until the reply is in the outbox, which has its own limit. Otherwise replies to a guest that
        // does not read them would accumulate.
        let _permit = self.reserve_answer(&call).await;
        let result = self.execute(call).await;
        self.session.reply(id, result).await;
    }

    /// Reserves memory for the answer if the answer may be large.
    async fn reserve_answer(&self, call: &HostCall) -> Option<SemaphorePermit<'_>> {
        let permit = match call {
            HostCall::External(_) => {
                let most = self.policy.max_answer_bytes().min(MAX_ANSWER_BYTES);
                self.answer_bytes.acquire_many(u32::try_from(most).unwrap_or(u32::MAX)).await
            }
            HostCall::Get(_) | HostCall::List(_) | HostCall::Namespaces => {
                self.read_slots.acquire().await
            }
            HostCall::Lease
            | HostCall::Store(_)
            | HostCall::BeforeCall { .. }
            | HostCall::AfterCall { .. }
            | HostCall::Heartbeat => return None,
        };
        Some(permit.expect("the handler never closes its semaphores"))
    }

    async fn execute(&self, call: HostCall) -> Result<Vec<u8>, Fault> {
        match call {
            HostCall::External(call) => {
                self.access.check(self.access.thread(), &call.namespace)?;
                let journal = CallJournal {
                    saver: self.saver.as_deref(),
                    policy: &self.policy,
                    quota: &self.quota,
                };
                let scope = self.access.journal_scope();
                encode_reply(&journal.call(&scope, self.access.thread(), *call).await?)
            }
            HostCall::Lease => {
                let lease = self.saver()?.lease(self.access.thread()).await?;
                *lock(&self.lease) = Some(lease);
                encode_reply(&())
            }
            HostCall::Store(writes) => {
                for write in &writes {
                    let key = match write {
                        CheckpointWrite::Put(checkpoint) => &checkpoint.key,
                        CheckpointWrite::Record(key, _) => key,
                    };
                    self.access.check(&key.thread, &key.namespace)?;
                }
                self.quota.take(&writes)?;
                self.saver()?.write(writes).await?;
                encode_reply(&())
            }
            HostCall::Get(lookup) => {
                self.access.check_read(&lookup.thread, &lookup.namespace)?;
                encode_reply(&self.saver()?.get(&lookup).await?)
            }
            HostCall::List(history) => {
                self.access.check_read(&history.thread, &history.namespace)?;
                encode_reply(&list_page(self.saver()?, history).await?)
            }
            HostCall::Namespaces => {
                let mut namespaces = self.saver()?.namespaces(self.access.thread()).await?;
                namespaces.retain(|(namespace, _)| self.access.allows(namespace));
                encode_reply(&namespaces)
            }
            HostCall::BeforeCall { task_path, key } => {
                self.quota.take_call_report(&(&task_path, &key))?;
                encode_reply(&self.access.before_call(&task_path, &key)?)
            }
            HostCall::AfterCall { task_path, key, outcome } => {
                self.quota.take_call_report(&(&task_path, &key, &outcome))?;
                encode_reply(&self.access.after_call(&task_path, &key, outcome)?)
            }
            HostCall::Heartbeat => {
                self.access.heartbeat();
                encode_reply(&())
            }
        }
    }

    fn saver(&self) -> Result<&dyn Checkpointer, Fault> {
        let missing = || Fault::new(FaultCode::Refused, "the run stores no checkpoints");
        self.saver.as_deref().ok_or_else(missing)
    }
}

/// Returns the newest requested checkpoints, up to the limits of a page. Loads them one by one, so that a thread with
/// large states is never in memory as a whole.
async fn list_page(
    saver: &dyn Checkpointer,
    history: HistoryQuery,
) -> Result<Vec<Checkpoint>, Fault> {
    let limit = history.limit.map_or(MAX_PAGE_LEN, |it| it.min(MAX_PAGE_LEN));
    let mut next = history.limit(1);
    let (mut page, mut bytes) = (Vec::new(), 0);
    while page.len() < limit {
        let Some(checkpoint) = saver.list(&next).await?.pop() else { break };
        bytes += quota::encoded_size(&checkpoint)?;
        // Return at least one checkpoint, so that a guest that requests page after page reaches the end of the list.
        if bytes > MAX_PAGE_BYTES && !page.is_empty() {
            break;
        }
        next.before = Some(checkpoint.key.id);
        page.push(checkpoint);
    }
    Ok(page)
}

/// Makes external calls and stores the answers in the thread.
struct CallJournal<'a> {
    /// Stores the answers, or `None` if the run stores no checkpoints.
    saver: Option<&'a dyn Checkpointer>,
    policy: &'a CallPolicy,
    quota: &'a Quota,
}

impl CallJournal<'_> {
    /// Makes a call. Stores the answer under the call's task before the guest receives it. If the guest then dies, its
    /// replacement finds the answer in the thread. `scope` identifies the run in the policy's own journal.
    async fn call(&self, scope: &str, thread: &str, call: ExternalCall) -> Result<Value, Fault> {
        self.quota.check()?;
        let id = call.checkpoint;
        let place =
            CheckpointKey { thread: thread.to_owned(), namespace: call.namespace.clone(), id };
        let (call_id, node) = (CallId::of(scope, &call), call.node.clone());
        let result = self.policy.execute(&call_id, call).await?;
        if let Some(saver) = self.saver.filter(|_| !self.policy.is_recorded(&call_id, &place)) {
            let event = TaskEvent::Effect { key: call_id.key.clone(), result: result.clone() };
            let record = TaskRecord { task: call_id.task, node, event };
            let write = vec![CheckpointWrite::Record(place.clone(), vec![record])];
            self.quota.take(&write)?;
            saver.write(write).await?;
            self.policy.mark_recorded(&call_id, place);
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use checkpoint_testkit::sample::new_checkpoint;
    use graph_core::{
        Checkpointer, MemorySaver,
        checkpoint::{CheckpointId, Lookup, NewCheckpoint, TaskEvent, TaskId, TaskRecord},
    };
    use serde_json::{Value, json};

    use super::{
        CallJournal, CheckpointWrite, ExternalCall, HistoryQuery, MAX_PAGE_LEN, Quota, list_page,
    };
    use crate::{CallError, CallPolicy, protocol::message::FaultCode};

    fn call(checkpoint: CheckpointId) -> ExternalCall {
        ExternalCall {
            kind: "llm.chat".to_owned(),
            request: json!("hello"),
            key: "llm.chat:1".to_owned(),
            task: TaskId::from_parts(&[b"task"]),
            node: "speak".to_owned(),
            namespace: String::new(),
            checkpoint,
        }
    }

    fn policy() -> CallPolicy {
        let executor = async |_: String, _: Value| Ok::<_, CallError>(json!("paid"));
        CallPolicy::new(executor).allow("llm.chat")
    }

    fn checkpoint(id: CheckpointId) -> NewCheckpoint {
        new_checkpoint("t", id, None, "run", Vec::new())
    }

    #[tokio::test]
    async fn answer_is_stored_before_guest_receives_it() {
        let saver = MemorySaver::new();
        let id = CheckpointId::next();
        saver.put(checkpoint(id)).await.unwrap();
        let (policy, quota) = (policy(), Quota::new(1 << 20));
        let journal = CallJournal { saver: Some(&saver), policy: &policy, quota: &quota };
        let task = call(id).task;
        let answer = journal.call("t", "t", call(id)).await.unwrap();
        assert_eq!(answer, "paid");
        let stored = saver.get(&Lookup::head("t", "")).await.unwrap().unwrap();
        let effect = TaskEvent::Effect { key: "llm.chat:1".to_owned(), result: json!("paid") };
        assert_eq!(stored.records[0].task, task);
        assert_eq!(stored.records[0].event, effect);
    }
    /// Returns the number of calls that succeed when one call is made at each of `checkpoints` with this storage quota.
    async fn calls_within(bytes: u64, checkpoints: &[CheckpointId]) -> usize {
        let (saver, policy, quota) = (MemorySaver::new(), policy(), Quota::new(bytes));
        let journal = CallJournal { saver: Some(&saver), policy: &policy, quota: &quota };
        let mut through = 0;
        for id in checkpoints {
            match journal.call("t", "t", call(*id)).await {
                Ok(_) => through += 1,
                Err(fault) => assert_eq!(fault.code, FaultCode::Refused),
            }
        }
        through
    }

    #[tokio::test]
    async fn repeated_answer_is_stored_once_per_checkpoint_within_quota() {
        let [one, two, three] = [(); 3].map(|()| CheckpointId::next());
        // The quota of 800 bytes is large enough for one record but not for two. Repeated calls at one checkpoint share
        // one record.
        assert_eq!(calls_within(800, &[one, one, one]).await, 3);
        assert_eq!(calls_within(800, &[one, two, three]).await, 1);
    }

    #[test]
    fn stored_bytes_and_records_are_bounded() {
        let write = |bytes: usize| {
            let mut checkpoint = checkpoint(CheckpointId::next());
            checkpoint.header.run = "r".repeat(bytes);
            vec![CheckpointWrite::Put(Box::new(checkpoint))]
        };
        let quota = Quota::new(1 << 20);
        quota.take(&write(1 << 19)).unwrap();
        assert_eq!(quota.take(&write(1 << 19)).unwrap_err().code, FaultCode::Refused);
        // After one write is refused, smaller writes are refused too.
        assert!(quota.take(&write(0)).is_err() && quota.check().is_err());
        // A small record costs more than its bytes.
        let event = TaskEvent::Resumed { values: Vec::new() };
        let record =
            TaskRecord { task: TaskId::from_parts(&[b"task"]), node: String::new(), event };
        let place = checkpoint(CheckpointId::next()).key;
        let records = vec![CheckpointWrite::Record(place, vec![record; 4096])];
        assert!(serde_json::to_string(&records).unwrap().len() < 1 << 19);
        assert!(Quota::new(1 << 20).take(&records).is_err());
        Quota::new(1 << 21).take(&records).unwrap();
    }

    #[test]
    fn reports_of_calls_count_towards_the_quota() {
        let quota = Quota::new(10_000);
        quota.take_call_report(&("0:ask", "k", json!("a".repeat(5000)))).unwrap();
        let refused = quota.take_call_report(&("0:ask", "k", json!("a".repeat(5000)))).unwrap_err();
        assert_eq!(refused.code, FaultCode::Refused);
        let small = Quota::new(10_000);
        let accepted = (0..1000).take_while(|_| small.take_call_report(&("", "")).is_ok());
        assert!(accepted.count() < 50);
    }

    #[tokio::test]
    async fn long_history_is_read_in_pages() {
        let saver = MemorySaver::new();
        let mut head = None;
        for _ in 0..MAX_PAGE_LEN + 1 {
            let id = CheckpointId::next();
            let next = NewCheckpoint { expected_head: head, ..checkpoint(id) };
            saver.put(next).await.unwrap();
            head = Some(id);
        }
        let all = HistoryQuery::new("t", "");
        let newest = list_page(&saver, all.clone()).await.unwrap();
        assert_eq!(newest.len(), MAX_PAGE_LEN);
        assert_eq!(
            list_page(&saver, all.clone().limit(usize::MAX)).await.unwrap().len(),
            MAX_PAGE_LEN
        );
        let rest = all.before(newest[MAX_PAGE_LEN - 1].key.id);
        assert_eq!(list_page(&saver, rest).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn page_size_is_bounded_and_an_oversized_state_has_its_own_page() {
        let saver = MemorySaver::new();
        let mut head = None;
        for bytes in [40 << 20, 10 << 20, 10 << 20, 10 << 20, 10 << 20] {
            let mut next = checkpoint(CheckpointId::next());
            next.expected_head = head.replace(next.key.id);
            next.header.run = "r".repeat(bytes);
            saver.put(next).await.unwrap();
        }
        let mut pages = Vec::new();
        let mut next = HistoryQuery::new("t", "");
        loop {
            let page = list_page(&saver, next.clone()).await.unwrap();
            let Some(last) = page.last() else { break };
            next.before = Some(last.key.id);
            pages.push(page.len());
        }
        assert_eq!(pages, [3, 1, 1]);
    }
}
