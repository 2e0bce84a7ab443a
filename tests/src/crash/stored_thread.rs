//! Reads a thread from the store after a crash and checks its consistency.

use std::collections::{BTreeMap, BTreeSet};

use graph_core::{
    Checkpointer, Durability,
    checkpoint::{CheckpointError, CheckpointId, HistoryQuery, Source, TaskEvent, TaskId},
};

use super::{
    job::{self, MAX_CONCURRENT_EFFECTS},
    logs::Ack,
};

/// All stored data of a thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredThread {
    checkpoints: BTreeMap<(String, CheckpointId), StoredCheckpoint>,
    records: BTreeSet<(String, CheckpointId, TaskId, String)>,
    effects: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct StoredCheckpoint {
    step: i64,
    source: Source,
    parent: Option<CheckpointId>,
}

/// The error returned when a stored thread is inconsistent after a crash.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConsistencyError {
    /// A write was acknowledged but is not stored.
    #[error("acknowledged write is not stored: {0:?}")]
    LostWrite(Ack),
    /// A checkpoint that was present after an earlier crash is missing or has changed.
    #[error("checkpoint {id} of namespace `{namespace}` is missing or changed")]
    LostCheckpoint { namespace: String, id: CheckpointId },
    /// A step is missing or is stored twice.
    #[error("in namespace `{namespace}`, step {step} follows step {before} with parent {parent:?}")]
    Gap {
        namespace: String,
        step: i64,
        /// Number of the preceding stored step.
        before: i64,
        /// Parent that the step's checkpoint specifies.
        parent: Option<CheckpointId>,
    },
    /// An effect was executed again, although its result had been stored.
    #[error("effect `{key}` was executed {times} times, the last time after its result was stored")]
    Repeated { key: String, times: usize },
    /// The number of executed effects without a record is greater than the number of effects that could have been in
    /// flight.
    #[error("{unrecorded} executed effects have no record after {crashes} crashes")]
    Unrecorded { unrecorded: usize, crashes: usize },
    /// The job is complete, but the executed effects are not exactly the expected ones.
    #[error(
        "the job is complete, but effects {missing:?} were not executed, \
         and effects {unexpected:?} were executed unexpectedly"
    )]
    WrongEffects {
        /// Keys of the expected effects that were not executed.
        missing: Vec<String>,
        /// Keys of the executed effects that were not expected.
        unexpected: Vec<String>,
    },
}

impl StoredThread {
    /// Reads all stored data of a thread.
    pub async fn of(saver: &dyn Checkpointer, thread: &str) -> Result<Self, CheckpointError> {
        let mut stored = Self::default();
        for (namespace, _) in saver.namespaces(thread).await? {
            for checkpoint in saver.list(&HistoryQuery::new(thread, &namespace)).await? {
                let (id, header) = (checkpoint.key.id, checkpoint.header);
                let seen = StoredCheckpoint {
                    step: header.step,
                    source: header.source,
                    parent: header.parent,
                };
                stored.checkpoints.insert((namespace.clone(), id), seen);
                for record in checkpoint.records {
                    let slot = record.event.slot();
                    stored.records.insert((namespace.clone(), id, record.task, slot));
                    if let TaskEvent::Effect { key, .. } = &record.event {
                        stored.effects.extend(job::effect_key(key));
                    }
                }
            }
        }
        Ok(stored)
    }

    /// Returns the step of the root graph's newest checkpoint. Returns `None` if nothing is stored.
    pub fn head_step(&self) -> Option<i64> {
        let mut root = self.checkpoints.iter().filter(|((namespace, _), _)| namespace.is_empty());
        root.next_back().map(|(_, seen)| seen.step)
    }

    /// Returns whether `other` contains all checkpoints and records of this thread.
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.checkpoints.iter().all(|(key, seen)| other.checkpoints.get(key) == Some(seen))
            && self.records.is_subset(&other.records)
    }

    /// Checks that step numbers increase by one, and that the parent of each checkpoint is the previous checkpoint.
    ///
    /// The checks are weaker with [`Durability::Exit`]. The root graph stores only some of its steps, so its step
    /// numbers may have gaps. Subgraphs are not checked, because a run that crashes leaves checkpoints of its
    /// subgraphs behind, and the next run adds further checkpoints.
    pub fn check_steps(&self, durability: Durability) -> Result<(), ConsistencyError> {
        let mut before: Option<(&String, CheckpointId, i64)> = None;
        for ((namespace, id), seen) in &self.checkpoints {
            let last = before.filter(|(name, ..)| *name == namespace);
            let (parent, last_step) = (last.map(|it| it.1), last.map_or(-2, |it| it.2));
            let follows = match durability {
                Durability::Exit if !namespace.is_empty() => true,
                Durability::Exit => seen.step > last_step && seen.parent == parent,
                Durability::Sync | Durability::Async => {
                    seen.step == last_step + 1
                        && seen.parent == parent
                        && (seen.source == Source::Input) == last.is_none()
                }
            };
            if !follows {
                let (namespace, parent) = (namespace.clone(), seen.parent);
                return Err(ConsistencyError::Gap {
                    namespace,
                    step: seen.step,
                    before: last_step,
                    parent,
                });
            }
            before = Some((namespace, *id, seen.step));
        }
        Ok(())
    }

    /// Checks that all acknowledged writes are stored.
    pub fn check_acks(&self, acks: &[Ack]) -> Result<(), ConsistencyError> {
        for ack in acks {
            let stored = match ack {
                Ack::Put { namespace, id } => self.has(namespace, *id),
                // Records are read together with their checkpoint, so the records of a checkpoint that is not stored
                // cannot be checked.
                Ack::Record { namespace, id, task, slot } => {
                    !self.has(namespace, *id)
                        || self.records.contains(&(namespace.clone(), *id, *task, slot.clone()))
                }
            };
            if !stored {
                return Err(ConsistencyError::LostWrite(ack.clone()));
            }
        }
        Ok(())
    }

    fn has(&self, namespace: &str, id: CheckpointId) -> bool {
        self.checkpoints.contains_key(&(namespace.to_owned(), id))
    }
}

/// Checks the consistency of one thread across several crashes of its workers.
#[derive(Clone, Debug)]
pub struct ConsistencyChecker {
    durability: Durability,
    stored: StoredThread,
    /// For each effect with a stored result, the number of its executions when the stored result was first
    /// observed.
    recorded_effects: BTreeMap<String, usize>,
    crashes: usize,
}

impl ConsistencyChecker {
    /// Creates a checker for a thread, which must not exist yet.
    pub fn new(durability: Durability) -> Self {
        Self {
            durability,
            stored: StoredThread::default(),
            recorded_effects: BTreeMap::new(),
            crashes: 0,
        }
    }

    pub fn crashes(&self) -> usize {
        self.crashes
    }

    /// Checks the stored state that a killed worker has left behind.
    pub fn after_crash(
        &mut self,
        stored: StoredThread,
        acks: &[Ack],
        effects: &BTreeMap<String, usize>,
    ) -> Result<(), ConsistencyError> {
        self.crashes += 1;
        self.check(stored, acks, effects)
    }

    /// Checks the final state. `all` contains all expected effects.
    pub fn at_end(
        &mut self,
        stored: StoredThread,
        acks: &[Ack],
        effects: &BTreeMap<String, usize>,
        all: &BTreeSet<String>,
    ) -> Result<(), ConsistencyError> {
        self.check(stored, acks, effects)?;
        let executed: BTreeSet<String> = effects.keys().cloned().collect();
        if executed != *all {
            return Err(ConsistencyError::WrongEffects {
                missing: all.difference(&executed).cloned().collect(),
                unexpected: executed.difference(all).cloned().collect(),
            });
        }
        Ok(())
    }

    fn check(
        &mut self,
        stored: StoredThread,
        acks: &[Ack],
        effects: &BTreeMap<String, usize>,
    ) -> Result<(), ConsistencyError> {
        stored.check_acks(acks)?;
        stored.check_steps(self.durability)?;
        for (key, seen) in &self.stored.checkpoints {
            if stored.checkpoints.get(key) != Some(seen) {
                let (namespace, id) = key.clone();
                return Err(ConsistencyError::LostCheckpoint { namespace, id });
            }
        }
        for (key, times) in &self.recorded_effects {
            let now = effects.get(key).copied().unwrap_or(0);
            if now != *times {
                return Err(ConsistencyError::Repeated { key: key.clone(), times: now });
            }
        }
        self.check_unrecorded(&stored, effects)?;
        for key in &stored.effects {
            let times = effects.get(key).copied().unwrap_or(0);
            self.recorded_effects.entry(key.clone()).or_insert(times);
        }
        self.stored = stored;
        Ok(())
    }

    /// Checks that crashes have lost only the records of effects that were in flight.
    fn check_unrecorded(
        &self,
        stored: &StoredThread,
        effects: &BTreeMap<String, usize>,
    ) -> Result<(), ConsistencyError> {
        // A run with `Durability::Exit` loses its whole journal when it crashes.
        if self.durability == Durability::Exit {
            return Ok(());
        }
        let unrecorded = effects.values().sum::<usize>().saturating_sub(stored.effects.len());
        if unrecorded > MAX_CONCURRENT_EFFECTS * self.crashes {
            return Err(ConsistencyError::Unrecorded { unrecorded, crashes: self.crashes });
        }
        Ok(())
    }
}
