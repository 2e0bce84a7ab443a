//! What is found in the store after a crash, and what must be true of it.

use std::collections::{BTreeMap, BTreeSet};

use graph_core::{
    Checkpointer, Durability,
    checkpoint::{CheckpointError, CheckpointId, Event, History, Source, TaskId},
};

use super::{
    job::{self, WIDTH},
    trail::Ack,
};

/// All that is stored of a thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sight {
    checkpoints: BTreeMap<(String, CheckpointId), Seen>,
    records: BTreeSet<(String, CheckpointId, TaskId, String)>,
    effects: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Seen {
    step: i64,
    source: Source,
    parent: Option<CheckpointId>,
}

/// A promise that a crash has broken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Broken {
    /// The saver said it was stored, and it is not.
    #[error("the saver said that this was stored, and it is not there: {0:?}")]
    LostWrite(Ack),
    /// It was there after an earlier crash.
    #[error("checkpoint {id} of namespace `{namespace}` was stored once, and is gone or changed")]
    LostCheckpoint {
        /// Its namespace.
        namespace: String,
        /// Its id.
        id: CheckpointId,
    },
    /// A step is missing, or stored twice.
    #[error("in namespace `{namespace}` step {step} follows step {before}, on {parent:?}")]
    Gap {
        /// The namespace.
        namespace: String,
        /// The step.
        step: i64,
        /// The one stored before it.
        before: i64,
        /// The checkpoint that the step says it follows.
        parent: Option<CheckpointId>,
    },
    /// An effect took place again though its result was stored.
    #[error("effect `{key}` took place {times} times, the last time after its result was stored")]
    Repeated {
        /// Its key.
        key: String,
        /// How often it took place.
        times: usize,
    },
    /// More effects took place without a record than can have been under way.
    #[error("{unrecorded} effects took place without a record, after {deaths} deaths")]
    Unrecorded {
        /// How many.
        unrecorded: usize,
        /// How often the process has died.
        deaths: usize,
    },
    /// An effect never took place.
    #[error("the job is done, and only these effects took place: {0:?}")]
    Missing(Vec<String>),
}

impl Sight {
    /// Reads all that is stored of a thread.
    pub async fn of(saver: &dyn Checkpointer, thread: &str) -> Result<Self, CheckpointError> {
        let mut sight = Self::default();
        for (namespace, _) in saver.namespaces(thread).await? {
            for checkpoint in saver.list(&History::of(thread, &namespace)).await? {
                let (id, header) = (checkpoint.place.id, checkpoint.header);
                let seen = Seen { step: header.step, source: header.source, parent: header.parent };
                sight.checkpoints.insert((namespace.clone(), id), seen);
                for record in checkpoint.records {
                    let slot = record.event.slot();
                    sight.records.insert((namespace.clone(), id, record.task, slot));
                    if let Event::Effect { key, .. } = &record.event {
                        sight.effects.extend(job::effect_key(key));
                    }
                }
            }
        }
        Ok(sight)
    }

    /// The step of the root graph's newest checkpoint; `None` if nothing is stored.
    #[must_use]
    pub fn head_step(&self) -> Option<i64> {
        let mut root = self.checkpoints.iter().filter(|((namespace, _), _)| namespace.is_empty());
        root.next_back().map(|(_, seen)| seen.step)
    }

    /// Whether all that is seen here is seen there too.
    #[must_use]
    pub fn is_part_of(&self, other: &Self) -> bool {
        self.checkpoints.iter().all(|(key, seen)| other.checkpoints.get(key) == Some(seen))
            && self.records.is_subset(&other.records)
    }

    /// Checks that steps count by one, each on the one before.
    ///
    /// Of a run that is stored at its end only some steps are. One that was lost meanwhile leaves its graphs inside
    /// behind, and who starts over puts its own beside them.
    pub fn check_steps(&self, durability: Durability) -> Result<(), Broken> {
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
                return Err(Broken::Gap { namespace, step: seen.step, before: last_step, parent });
            }
            before = Some((namespace, *id, seen.step));
        }
        Ok(())
    }

    /// Checks that what the saver has answered for is there.
    pub fn check_acks(&self, acks: &[Ack]) -> Result<(), Broken> {
        for ack in acks {
            let stored = match ack {
                Ack::Put { namespace, id } => self.has(namespace, *id),
                // A record is read with its checkpoint, so without that one nobody can tell.
                Ack::Record { namespace, id, task, slot } => {
                    !self.has(namespace, *id)
                        || self.records.contains(&(namespace.clone(), *id, *task, slot.clone()))
                }
            };
            if !stored {
                return Err(Broken::LostWrite(ack.clone()));
            }
        }
        Ok(())
    }

    fn has(&self, namespace: &str, id: CheckpointId) -> bool {
        self.checkpoints.contains_key(&(namespace.to_owned(), id))
    }
}

/// Follows one thread over the deaths of those who work on it.
#[derive(Clone, Debug)]
pub struct Watch {
    durability: Durability,
    sight: Sight,
    /// How often the effects whose result is stored had taken place when that was first seen.
    settled: BTreeMap<String, usize>,
    deaths: usize,
}

impl Watch {
    /// A watch on a thread that does not exist yet.
    #[must_use]
    pub fn new(durability: Durability) -> Self {
        Self { durability, sight: Sight::default(), settled: BTreeMap::new(), deaths: 0 }
    }

    /// How often a worker has died.
    #[must_use]
    pub fn deaths(&self) -> usize {
        self.deaths
    }

    /// Checks what a dead worker left behind.
    pub fn after_death(
        &mut self,
        sight: Sight,
        acks: &[Ack],
        effects: &BTreeMap<String, usize>,
    ) -> Result<(), Broken> {
        self.deaths += 1;
        self.look(sight, acks, effects)
    }

    /// Checks what is there once the job is done, given the effects that it takes.
    pub fn at_end(
        &mut self,
        sight: Sight,
        acks: &[Ack],
        effects: &BTreeMap<String, usize>,
        all: &BTreeSet<String>,
    ) -> Result<(), Broken> {
        self.look(sight, acks, effects)?;
        if effects.keys().ne(all) {
            return Err(Broken::Missing(effects.keys().cloned().collect()));
        }
        Ok(())
    }

    fn look(
        &mut self,
        sight: Sight,
        acks: &[Ack],
        effects: &BTreeMap<String, usize>,
    ) -> Result<(), Broken> {
        sight.check_acks(acks)?;
        sight.check_steps(self.durability)?;
        for (key, seen) in &self.sight.checkpoints {
            if sight.checkpoints.get(key) != Some(seen) {
                let (namespace, id) = key.clone();
                return Err(Broken::LostCheckpoint { namespace, id });
            }
        }
        for (key, times) in &self.settled {
            let now = effects.get(key).copied().unwrap_or(0);
            if now != *times {
                return Err(Broken::Repeated { key: key.clone(), times: now });
            }
        }
        self.check_unrecorded(&sight, effects)?;
        for key in &sight.effects {
            let times = effects.get(key).copied().unwrap_or(0);
            self.settled.entry(key.clone()).or_insert(times);
        }
        self.sight = sight;
        Ok(())
    }

    /// A death may cost the records of the effects that were under way, and no others.
    fn check_unrecorded(
        &self,
        sight: &Sight,
        effects: &BTreeMap<String, usize>,
    ) -> Result<(), Broken> {
        // A run that is stored at its end loses its journal with itself.
        if self.durability == Durability::Exit {
            return Ok(());
        }
        let unrecorded = effects.values().sum::<usize>().saturating_sub(sight.effects.len());
        if unrecorded > WIDTH * self.deaths {
            return Err(Broken::Unrecorded { unrecorded, deaths: self.deaths });
        }
        Ok(())
    }
}
