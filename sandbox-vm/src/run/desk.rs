//! Who answers a running graph's questions: its checkpoints, and its calls to the outside.
//!
//! A guest may name any thread it likes; what it names is checked here against the one thread it was given.

use std::sync::{Arc, Mutex, PoisonError};

use graph_core::checkpoint::{
    Checkpoint, Checkpointer, Event as Recorded, History, Lease, Place, TaskRecord, Write,
};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::quota::{self, Quota};
use crate::{
    Gate,
    gate::Name,
    protocol::message::{Call, Fault, FaultCode, Wish},
    session::{Session, answer},
};

/// How many checkpoints a guest gets at once; it may ask for those before them.
const MAX_HISTORY: usize = 256;

/// How many bytes of checkpoints a guest gets at once, if it is more than one checkpoint.
const MAX_PAGE: u64 = 32 << 20;

/// How many questions about checkpoints are answered at once: each may need as much memory as the thread's whole state.
const READS: usize = 2;

/// How many bytes of answers of calls may wait until the guest takes them; a call for whose answer there is no room is
/// not made yet.
const ANSWERS: usize = 256 << 20;

/// What one run may reach of the host.
#[derive(Debug)]
pub(super) struct Desk {
    session: Session,
    thread: String,
    saver: Arc<dyn Checkpointer>,
    gate: Gate,
    quota: Quota,
    // A std mutex: held for a moment, never over an await.
    lease: Mutex<Option<Lease>>,
    reads: Semaphore,
    /// A permit for each byte.
    answers: Semaphore,
}

impl Desk {
    pub(super) fn new(
        session: Session,
        thread: String,
        saver: Arc<dyn Checkpointer>,
        gate: Gate,
        quota: Quota,
    ) -> Self {
        let (reads, answers) = (Semaphore::new(READS), Semaphore::new(ANSWERS));
        Self { session, thread, saver, gate, quota, lease: Mutex::new(None), reads, answers }
    }

    /// Answers one question.
    pub(super) async fn serve(&self, id: u64, wish: Wish) {
        // Held until the answer is among those to be written, which are bounded themselves: what a guest that does not
        // read has asked for does not pile up.
        let _room = self.room(&wish).await;
        let answered = self.grant(wish).await;
        self.session.answer(id, answered).await;
    }

    /// Room for an answer, as far as it may be large.
    async fn room(&self, wish: &Wish) -> Option<SemaphorePermit<'_>> {
        let room = match wish {
            Wish::Call(_) => {
                let most = self.gate.max_answer_bytes().min(ANSWERS);
                self.answers.acquire_many(u32::try_from(most).unwrap_or(u32::MAX)).await
            }
            Wish::Get(_) | Wish::List(_) | Wish::Namespaces => self.reads.acquire().await,
            Wish::Lease | Wish::Store(_) => return None,
        };
        Some(room.expect("the desk never closes its semaphores"))
    }

    async fn grant(&self, wish: Wish) -> Result<Vec<u8>, Fault> {
        match wish {
            Wish::Call(call) => {
                let journal = Journal { saver: &*self.saver, gate: &self.gate, quota: &self.quota };
                answer(&journal.call(&self.thread, *call).await?)
            }
            Wish::Lease => {
                let lease = self.saver.lease(&self.thread).await?;
                *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = Some(lease);
                answer(&())
            }
            Wish::Store(writes) => {
                for write in &writes {
                    self.own(write.thread())?;
                }
                self.quota.take(&writes)?;
                self.saver.write(writes).await?;
                answer(&())
            }
            Wish::Get(lookup) => {
                self.own(&lookup.thread)?;
                answer(&self.saver.get(&lookup).await?)
            }
            Wish::List(history) => {
                self.own(&history.thread)?;
                answer(&list(&*self.saver, history).await?)
            }
            Wish::Namespaces => answer(&self.saver.namespaces(&self.thread).await?),
        }
    }

    fn own(&self, thread: &str) -> Result<(), Fault> {
        if thread == self.thread {
            return Ok(());
        }
        tracing::warn!(own = self.thread, "a guest asks for a thread that is not its own");
        Err(Fault::new(FaultCode::Refused, "a graph in a sandbox reaches its own thread only"))
    }
}

/// The newest of the checkpoints that are asked for. They are read one by one: a thread of large states is not held as
/// a whole.
async fn list(saver: &dyn Checkpointer, history: History) -> Result<Vec<Checkpoint>, Fault> {
    let limit = history.limit.map_or(MAX_HISTORY, |it| it.min(MAX_HISTORY));
    let mut next = history.limit(1);
    let (mut page, mut bytes) = (Vec::new(), 0);
    while page.len() < limit {
        let Some(checkpoint) = saver.list(&next).await?.pop() else { break };
        bytes += quota::size(&checkpoint)?;
        // At least one: a guest that goes on from the last of them comes to an end.
        if bytes > MAX_PAGE && !page.is_empty() {
            break;
        }
        next.before = Some(checkpoint.place.id);
        page.push(checkpoint);
    }
    Ok(page)
}

/// Where calls and their answers go.
struct Journal<'a> {
    saver: &'a dyn Checkpointer,
    gate: &'a Gate,
    quota: &'a Quota,
}

impl Journal<'_> {
    /// Makes a call and journals its result under its task before the guest hears of it: if the guest dies now, the next
    /// one finds the answer in the thread.
    async fn call(&self, thread: &str, call: Call) -> Result<Value, Fault> {
        self.quota.check()?;
        let id = call.checkpoint;
        let place = Place { thread: thread.to_owned(), namespace: call.namespace.clone(), id };
        let (name, node) = (Name::of(thread, &call), call.node.clone());
        let result = self.gate.pass(&name, call).await?;
        if !self.gate.is_recorded(&name, &place) {
            let event = Recorded::Effect { key: name.key.clone(), result: result.clone() };
            let record = TaskRecord { task: name.task, node, event };
            let write = vec![Write::Record(place.clone(), vec![record])];
            self.quota.take(&write)?;
            self.saver.write(write).await?;
            self.gate.recorded(&name, place);
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::SystemTime};

    use graph_core::{
        Checkpointer, MemorySaver,
        checkpoint::{
            CheckpointId, Cursor, Event, Header, Lookup, NewCheckpoint, Place, Source, TaskId,
            TaskRecord,
        },
    };
    use serde_json::{Map, Value, json};

    use super::{Call, History, Journal, MAX_HISTORY, Quota, Write, list};
    use crate::{CallError, Gate, protocol::message::FaultCode};

    fn call(checkpoint: CheckpointId) -> Call {
        Call {
            kind: "llm.chat".to_owned(),
            request: json!("hello"),
            key: "llm.chat:1".to_owned(),
            task: TaskId::of(&[b"task"]),
            node: "speak".to_owned(),
            namespace: String::new(),
            checkpoint,
        }
    }

    fn gate() -> Gate {
        let outside = async |_: String, _: Value| Ok::<_, CallError>(json!("paid"));
        Gate::new(outside).allow("llm.chat")
    }

    fn checkpoint(id: CheckpointId) -> NewCheckpoint {
        NewCheckpoint {
            place: Place { thread: "t".to_owned(), namespace: String::new(), id },
            expected_head: None,
            base: None,
            header: Header {
                parent: None,
                origin: id,
                step: 0,
                source: Source::Loop,
                created_at: SystemTime::now(),
                run: "r".to_owned(),
                version: 1,
                parents: BTreeMap::new(),
                metadata: Map::new(),
            },
            cursor: Cursor::default(),
            changes: Vec::new(),
        }
    }

    #[tokio::test]
    async fn an_answer_is_in_the_thread_before_the_guest_hears_of_it() {
        let saver = MemorySaver::new();
        let id = CheckpointId::next();
        saver.put(checkpoint(id)).await.unwrap();
        let (gate, quota) = (gate(), Quota::new(1 << 20));
        let journal = Journal { saver: &saver, gate: &gate, quota: &quota };
        let task = call(id).task;
        let answer = journal.call("t", call(id)).await.unwrap();
        assert_eq!(answer, "paid");
        let stored = saver.get(&Lookup::head("t", "")).await.unwrap().unwrap();
        let effect = Event::Effect { key: "llm.chat:1".to_owned(), result: json!("paid") };
        assert_eq!(stored.records[0].task, task);
        assert_eq!(stored.records[0].event, effect);
    }
    /// How many of the calls at these checkpoints go through, with so many bytes to store their answers.
    async fn calls_within(bytes: u64, checkpoints: &[CheckpointId]) -> usize {
        let (saver, gate, quota) = (MemorySaver::new(), gate(), Quota::new(bytes));
        let journal = Journal { saver: &saver, gate: &gate, quota: &quota };
        let mut through = 0;
        for id in checkpoints {
            match journal.call("t", call(*id)).await {
                Ok(_) => through += 1,
                Err(fault) => assert_eq!(fault.code, FaultCode::Refused),
            }
        }
        through
    }

    #[tokio::test]
    async fn an_answer_that_is_given_again_is_stored_once_for_each_place_and_within_the_quota() {
        let [one, two, three] = [(); 3].map(|()| CheckpointId::next());
        // Room for one record, and not for two.
        assert_eq!(calls_within(800, &[one, one, one]).await, 3);
        assert_eq!(calls_within(800, &[one, two, three]).await, 1);
    }

    #[test]
    fn what_a_run_stores_is_bounded_in_bytes_and_in_records() {
        let write = |bytes: usize| {
            let mut checkpoint = checkpoint(CheckpointId::next());
            checkpoint.header.run = "r".repeat(bytes);
            vec![Write::Put(Box::new(checkpoint))]
        };
        let quota = Quota::new(1 << 20);
        quota.take(&write(1 << 19)).unwrap();
        assert_eq!(quota.take(&write(1 << 19)).unwrap_err().code, FaultCode::Refused);
        // What was refused once does not come back in smaller pieces.
        assert!(quota.take(&write(0)).is_err() && quota.check().is_err());
        // Small ones count for more than their bytes.
        let event = Event::Answered { answers: Vec::new() };
        let record = TaskRecord { task: TaskId::of(&[b"task"]), node: String::new(), event };
        let place = checkpoint(CheckpointId::next()).place;
        let records = vec![Write::Record(place, vec![record; 4096])];
        assert!(serde_json::to_string(&records).unwrap().len() < 1 << 19);
        assert!(Quota::new(1 << 20).take(&records).is_err());
        Quota::new(1 << 21).take(&records).unwrap();
    }

    #[tokio::test]
    async fn a_guest_reads_a_long_history_in_parts() {
        let saver = MemorySaver::new();
        let mut head = None;
        for _ in 0..MAX_HISTORY + 1 {
            let id = CheckpointId::next();
            let next = NewCheckpoint { expected_head: head, ..checkpoint(id) };
            saver.put(next).await.unwrap();
            head = Some(id);
        }
        let all = History::of("t", "");
        let newest = list(&saver, all.clone()).await.unwrap();
        assert_eq!(newest.len(), MAX_HISTORY);
        assert_eq!(list(&saver, all.clone().limit(usize::MAX)).await.unwrap().len(), MAX_HISTORY);
        let rest = all.before(newest[MAX_HISTORY - 1].place.id);
        assert_eq!(list(&saver, rest).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn large_states_are_read_few_at_a_time_and_the_largest_alone() {
        let saver = MemorySaver::new();
        let mut head = None;
        for bytes in [40 << 20, 10 << 20, 10 << 20, 10 << 20, 10 << 20] {
            let mut next = checkpoint(CheckpointId::next());
            next.expected_head = head.replace(next.place.id);
            next.header.run = "r".repeat(bytes);
            saver.put(next).await.unwrap();
        }
        let mut pages = Vec::new();
        let mut next = History::of("t", "");
        loop {
            let page = list(&saver, next.clone()).await.unwrap();
            let Some(last) = page.last() else { break };
            next.before = Some(last.place.id);
            pages.push(page.len());
        }
        assert_eq!(pages, [3, 1, 1]);
    }
}
