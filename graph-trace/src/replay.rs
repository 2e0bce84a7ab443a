//! Record and replay: a run's outside calls in a file, and the run again without them.
//!
//! A [`Recording`] holds what every outside call of a run brought, and the run's trace. [`record_to`] makes one,
//! [`Recording::replay`] runs the graph on it: each [`Context::task`](graph_core::Context::task), clock reading and
//! random number comes back as it was, and nothing is called. So a change to a graph or a prompt can be tried on a run
//! that happened, and a fault that happened once can be looked at as often as one likes.
//!
//! A recording holds the results of calls **as they are**. Where they hold secrets or what people wrote, so does the
//! file.
//!
//! What a replay cannot give back is an error's type: a recorded error comes back as a
//! [`RecordedError`](graph_core::RecordedError) with the same words, final if it was. A retry policy that looks at
//! types may decide otherwise than it did; one that looks at words does not.

mod file;
mod record;
mod report;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use graph_core::{
    CompiledGraph, EffectCall, Effects, FieldWrite, Input, NodeError, Recall, RunOptions, State,
    state::FieldError,
};
use serde_json::Value;

pub use file::{Call, Outcome, Recording, RecordingError};
pub use record::{Recorder, record_to};
pub use report::{LeftRecording, Replayed, Stray};

impl Recording {
    /// Runs the graph again on what was recorded: the same input, and for each outside call what it brought then.
    ///
    /// Nothing is called. A call that the recording does not know fails its task for good, and so the run, and is in
    /// [`Replayed::strays`] with the call that was expected in its place.
    ///
    /// ```
    /// use graph_core::{Context, NodeError, RunOptions, START, State, StateGraph};
    /// use graph_trace::{Recording, record_to};
    ///
    /// #[derive(State, Clone, Debug, Default)]
    /// struct Essay {
    ///     topic: String,
    ///     text: String,
    /// }
    ///
    /// async fn write(essay: &Essay, cx: &Context) -> Result<EssayUpdate, NodeError> {
    ///     let topic = &essay.topic;
    ///     let text = cx.task("ask", topic, async { Ok(format!("All about {topic}.")) }).await?;
    ///     Ok(Essay::update().text(text))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("essay-{}.jsonl", std::process::id()));
    /// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
    /// let essay = Essay { topic: "tea".into(), ..Essay::default() };
    /// let recorded = record_to(&graph, essay, (), RunOptions::new(), &path).await?;
    ///
    /// let replayed = Recording::read(&path)?.replay(&graph, ()).await?;
    /// replayed.check()?;
    /// assert_eq!(replayed.trace, recorded.trace);
    /// # std::fs::remove_file(path)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Fails without running anything if the recorded input does not fit the graph's state, as a command to a thread
    /// does not: then give the input with [`replay_on`](Self::replay_on).
    pub async fn replay<S: State + Default, C: Send + Sync + 'static>(
        &self,
        graph: &CompiledGraph<S, C>,
        deps: C,
    ) -> Result<Replayed<S>, FieldError> {
        let input = Input::update(S::default().update_from(writes_of(&self.header.input))?);
        Ok(self.replay_on(graph, input, deps, RunOptions::new()).await)
    }

    /// Runs the graph on what was recorded, with this input and these options.
    pub async fn replay_on<S: State, C: Send + Sync + 'static>(
        &self,
        graph: &CompiledGraph<S, C>,
        input: impl Into<Input<S>>,
        deps: C,
        options: RunOptions,
    ) -> Replayed<S> {
        let replayer = self.replayer();
        let options = options.effects(replayer.clone());
        let recorded = crate::record(graph, input, deps, options).await;
        Replayed::new(recorded, &replayer, self)
    }

    /// What gives the recorded calls back, for a run of your own: see
    /// [`RunOptions::effects`](graph_core::RunOptions::effects).
    pub fn replayer(&self) -> Arc<Replayer> {
        Arc::new(Replayer::new(self.calls.clone()))
    }
}

/// The writes of an input as a trace shows it.
fn writes_of(input: &Value) -> Vec<FieldWrite> {
    let fields = input.as_object().into_iter().flatten();
    let write = |(field, value): (&String, &Value)| {
        let whole = value.as_object().filter(|it| it.len() == 1).and_then(|it| it.get("overwrite"));
        FieldWrite {
            field: field.clone(),
            value: whole.unwrap_or(value).clone(),
            overwrite: whole.is_some(),
        }
    };
    fields.map(write).collect()
}

/// Gives the calls of a recording back, in place of making them.
///
/// A call is known by its place and key. Several under one place and key, as of one that failed and was tried again,
/// come back in the order in which they came.
#[derive(Debug)]
pub struct Replayer {
    calls: Vec<Call>,
    /// Where each place's calls are, in the order in which they were made.
    places: BTreeMap<String, Vec<usize>>,
    // A std mutex: held for a moment, never over an await.
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    given: Vec<bool>,
    strays: Vec<Stray>,
}

impl Replayer {
    fn new(calls: Vec<Call>) -> Self {
        let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (nth, call) in calls.iter().enumerate() {
            places.entry(call.place.clone()).or_default().push(nth);
        }
        let seen = Seen { given: vec![false; calls.len()], strays: Vec::new() };
        Self { calls, places, seen: Mutex::new(seen) }
    }

    /// The calls that the recording does not know, in the order of their places.
    pub fn strays(&self) -> Vec<Stray> {
        let mut strays = self.with_seen(|it| it.strays.clone());
        strays.sort_by(|a, b| file::by_place(&a.place, &b.place).then_with(|| a.key.cmp(&b.key)));
        strays
    }

    /// The recorded calls that nobody asked for.
    pub fn left_over(&self) -> Vec<Call> {
        let given = self.with_seen(|it| it.given.clone());
        let calls = self.calls.iter().zip(given);
        calls.filter(|(_, given)| !given).map(|(call, _)| call.clone()).collect()
    }

    fn with_seen<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The call that was expected where another one is made: one of the same name, or the next of that place.
    fn expected(&self, call: EffectCall<'_>, given: &[bool]) -> Option<usize> {
        let open = || self.places.get(call.place).into_iter().flatten().filter(|it| !given[**it]);
        let name = |key: &str| key.split_once(':').map_or(key.len(), |it| it.0.len());
        let named = |it: &&usize| {
            let key = &self.calls[**it].key;
            key[..name(key)] == call.key[..name(call.key)]
        };
        open().find(named).or_else(|| open().next()).copied()
    }
}

impl Effects for Replayer {
    fn recall(&self, call: EffectCall<'_>) -> Recall {
        self.with_seen(|seen| {
            let here = self.places.get(call.place).into_iter().flatten().copied();
            let known = |it: &usize| !seen.given[*it] && self.calls[*it].key == call.key;
            if let Some(nth) = here.clone().find(known) {
                seen.given[nth] = true;
                return self.calls[nth].outcome.recall();
            }
            let expected = self.expected(call, &seen.given).map(|it| self.calls[it].key.clone());
            let times = here.filter(|it| self.calls[*it].key == call.key).count();
            let elsewhere =
                self.calls.iter().find(|it| it.key == call.key && it.place != call.place);
            let stray = Stray {
                place: call.place.to_owned(),
                key: call.key.to_owned(),
                expected,
                times,
                elsewhere: elsewhere.map(|it| it.place.clone()),
            };
            let problem = stray.problem();
            seen.strays.push(stray);
            Recall::Diverged(problem)
        })
    }

    fn made(&self, _: EffectCall<'_>, _: Result<&Value, &NodeError>) {}
}
