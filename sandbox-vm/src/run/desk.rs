//! Who answers a running graph's questions: its checkpoints, and its calls to the outside.
//!
//! A guest may name any thread it likes; what it names is checked here against the one thread it was given.

use std::sync::{Arc, Mutex, PoisonError};

use graph_core::checkpoint::{Checkpointer, Event as Recorded, Lease, Place, TaskRecord};

use serde_json::Value;

use crate::{
    Gate,
    protocol::message::{Call, Fault, FaultCode, Wish},
    session::{Session, answer},
};

/// What one run may reach of the host.
#[derive(Debug)]
pub(super) struct Desk {
    session: Session,
    thread: String,
    saver: Arc<dyn Checkpointer>,
    gate: Gate,
    // A std mutex: held for a moment, never over an await.
    lease: Mutex<Option<Lease>>,
}

impl Desk {
    pub(super) fn new(
        session: Session,
        thread: String,
        saver: Arc<dyn Checkpointer>,
        gate: Gate,
    ) -> Self {
        Self { session, thread, saver, gate, lease: Mutex::new(None) }
    }

    /// Answers one question.
    pub(super) async fn serve(&self, id: u64, wish: Wish) {
        let answered = self.grant(wish).await;
        self.session.answer(id, answered).await;
    }

    async fn grant(&self, wish: Wish) -> Result<Vec<u8>, Fault> {
        match wish {
            Wish::Call(call) => {
                answer(&journaled(&*self.saver, &self.gate, &self.thread, *call).await?)
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
                self.saver.write(writes).await?;
                answer(&())
            }
            Wish::Get(lookup) => {
                self.own(&lookup.thread)?;
                answer(&self.saver.get(&lookup).await?)
            }
            Wish::List(history) => {
                self.own(&history.thread)?;
                answer(&self.saver.list(&history).await?)
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

/// Makes a call and journals its result under its task before the guest hears of it: if the guest dies now, the next one
/// finds the answer in the thread.
async fn journaled(
    saver: &dyn Checkpointer,
    gate: &Gate,
    thread: &str,
    call: Call,
) -> Result<Value, Fault> {
    let place =
        Place { thread: thread.to_owned(), namespace: call.namespace.clone(), id: call.checkpoint };
    let (task, node, key) = (call.task, call.node.clone(), call.key.clone());
    let result = gate.pass(thread, call).await?;
    let event = Recorded::Effect { key, result: result.clone() };
    saver.record(&place, vec![TaskRecord { task, node, event }]).await?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::SystemTime};

    use graph_core::{
        Checkpointer, MemorySaver,
        checkpoint::{
            CheckpointId, Cursor, Event, Header, Lookup, NewCheckpoint, Place, Source, TaskId,
        },
    };
    use serde_json::{Map, Value, json};

    use super::{Call, journaled};
    use crate::{CallError, Gate};

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
        let outside = async |_: String, _: Value| Ok::<_, CallError>(json!("paid"));
        let gate = Gate::new(outside).allow("llm.chat");
        let call = Call {
            kind: "llm.chat".to_owned(),
            request: json!("hello"),
            key: "llm.chat:1".to_owned(),
            task: TaskId::of(&[b"task"]),
            node: "speak".to_owned(),
            namespace: String::new(),
            checkpoint: id,
        };
        let task = call.task;
        let answer = journaled(&saver, &gate, "t", call).await.unwrap();
        assert_eq!(answer, "paid");
        let stored = saver.get(&Lookup::head("t", "")).await.unwrap().unwrap();
        let effect = Event::Effect { key: "llm.chat:1".to_owned(), result: json!("paid") };
        assert_eq!(stored.records[0].task, task);
        assert_eq!(stored.records[0].event, effect);
    }
}
