//! One thread under watch, and what is expected of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use graph_core::{Durability, MemorySaver};

use super::{
    job::{self, Job, World},
    sight::{Broken, Sight, Watch},
    trail,
    worker::Post,
};

/// What comes of the job when nothing goes wrong.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The state it ends with.
    pub job: Job,
    /// The effects it takes, each of them once.
    pub effects: BTreeSet<String>,
}

impl Expected {
    /// Runs the job in this process, without a disk.
    ///
    /// # Panics
    ///
    /// If even that fails.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is room for a temporary folder");
        let path = folder.path().join("world");
        let (saver, world) = (Arc::new(MemorySaver::new()), World::new(path.clone()));
        let job = block_on(job::finish(saver, "job", Durability::Sync, world));
        let job = job.expect("nothing goes wrong without a disk");
        let effects = trail::effects(&path).expect("the world was written just now");
        assert!(effects.values().all(|it| *it == 1), "effects took place twice: {effects:?}");
        Self { job, effects: effects.into_keys().collect() }
    }
}

impl Default for Expected {
    fn default() -> Self {
        Self::new()
    }
}

/// A post under watch.
#[derive(Debug)]
pub struct Case<'a> {
    post: &'a Post,
    watch: Watch,
}

impl<'a> Case<'a> {
    /// A watch on a post whose thread does not exist yet.
    #[must_use]
    pub fn new(post: &'a Post, durability: Durability) -> Self {
        Self { post, watch: Watch::new(durability) }
    }

    /// How often a worker has died.
    #[must_use]
    pub fn deaths(&self) -> usize {
        self.watch.deaths()
    }

    /// Checks what a dead worker left behind.
    ///
    /// # Panics
    ///
    /// If the store or the trail cannot be read at all.
    pub fn after_death(&mut self) -> Result<(), Broken> {
        let (acks, effects) = self.trail();
        self.watch.after_death(self.sight(), &acks, &effects)
    }

    /// Checks what is there once the job is done.
    ///
    /// # Panics
    ///
    /// If the store or the trail cannot be read at all.
    pub fn at_end(&mut self, expected: &Expected) -> Result<(), Broken> {
        let (acks, effects) = self.trail();
        self.watch.at_end(self.sight(), &acks, &effects, &expected.effects)
    }

    fn sight(&self) -> Sight {
        block_on(self.post.sight()).expect("what was stored can be read")
    }

    fn trail(&self) -> (Vec<trail::Ack>, BTreeMap<String, usize>) {
        let acks = self.post.acks().expect("what was answered can be read");
        (acks, self.post.effects().expect("the world can be read"))
    }
}

/// Runs a future to its end on this thread.
///
/// # Panics
///
/// If there can be no runtime.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime needs nothing that could be missing").block_on(future)
}
