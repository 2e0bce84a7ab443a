//! The input of a run.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    command::route::Route,
    engine::input::{CommandInput, Resume, RunInput},
    error::RunError,
    goto::Gotos,
    graph::erased::Graph,
    state::{State, erased::AnyUpdate, field::FieldError},
    stream::writes_to_json,
};

/// The input of a run: fresh input (a state or an update), a command, or nothing.
///
/// States and updates convert into inputs: `graph.invoke(Essay { .. }, deps)`,
/// `thread.run(Essay::update().topic("tea"))`.
///
/// A whole state starts a thread. On a thread that already has a state, a whole state is rejected if it has fields
/// without a reducer, because it would silently reset these fields; pass an update instead.
///
/// ```
/// use graph_core::{Goto, Input, MemorySaver, START, State, StateGraph};
///
/// # #[derive(State, Clone, Debug, Default)]
/// # struct Count {
/// #     #[reduce(add)]
/// #     value: u32,
/// # }
/// # async fn increment(_: &Count) -> CountUpdate {
/// #     Count::update().value(1)
/// # }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let graph = StateGraph::<Count>::new().node(increment).edge(START, increment);
/// # let graph = graph.checkpointer(MemorySaver::new()).compile()?;
/// let thread = graph.thread("1", ());
/// thread.invoke(Count { value: 3 }).await?;
/// // A command updates the state and runs a node of the caller's choice.
/// let command = Input::command().with_update(Count::update().value(10));
/// let count = thread.invoke(command.goto(Goto::node("increment"))).await?;
/// assert_eq!(count.value, 15);
/// # Ok(()) }
/// ```
pub struct Input<S: State> {
    update: Option<S::Update>,
    kind: InputKind,
    gotos: Gotos,
    resume: Option<Resume>,
}

/// How a thread treats the input.
#[derive(Clone, Copy, Debug, PartialEq)]
enum InputKind {
    /// The run starts at START.
    Fresh,
    /// The run starts at START. The thread must be new.
    WholeState,
    /// The run starts at START if the thread has no checkpoint. Otherwise the update is ignored.
    FreshIfNew,
    /// The input is applied to the thread's current checkpoint.
    Command,
}

impl<S: State> Input<S> {
    /// Creates fresh input. The update is folded into the thread's state, and START runs next.
    pub fn update(update: S::Update) -> Self {
        Self { update: Some(update), ..Self::proceed() }
    }

    /// Creates input that starts a new thread with `update`. If the thread already has a checkpoint, the run continues
    /// from it and ignores `update`. With [`with_resume`](Self::with_resume), an existing thread is also resumed.
    ///
    /// See [`Thread::start_or_continue`](crate::Thread::start_or_continue) and
    /// [`Thread::start_or_resume`](crate::Thread::start_or_resume).
    pub fn start_or_continue(update: S::Update) -> Self {
        Self { kind: InputKind::FreshIfNew, ..Self::update(update) }
    }

    /// Creates an empty input, which continues the thread from its checkpoint.
    pub fn proceed() -> Self {
        Self { update: None, kind: InputKind::Fresh, gotos: Gotos::new(), resume: None }
    }

    /// Creates an empty command. Add its parts with [`with_resume`](Self::with_resume),
    /// [`with_update`](Self::with_update) and [`goto`](Self::goto).
    pub fn command() -> Self {
        Self { kind: InputKind::Command, ..Self::proceed() }
    }

    /// Creates a command that resumes the only pending interrupt with this value. A thread without a pending interrupt
    /// ignores the value.
    ///
    /// Fails if the value cannot be serialised to JSON.
    pub fn resume(value: impl Serialize) -> Result<Self, RunError> {
        Self::command().with_resume(value)
    }

    /// Creates a command that resumes pending interrupts with one value per interrupt id.
    pub fn resume_by_id(values: impl IntoIterator<Item = (String, Value)>) -> Self {
        let values: BTreeMap<_, _> = values.into_iter().collect();
        Self { resume: Some(Resume::ById(values)), ..Self::command() }
    }

    /// Turns the input into a command that resumes the only pending interrupt with this value.
    ///
    /// Input that [starts or continues](Self::start_or_continue) a thread is not turned into a command: a new thread is
    /// started and ignores the value, and an existing thread is resumed.
    pub fn with_resume(mut self, value: impl Serialize) -> Result<Self, RunError> {
        let value = serde_json::to_value(value).map_err(|error| {
            RunError::InvalidUpdate(format!("cannot serialise the resume value to JSON: {error}"))
        })?;
        self.resume = Some(Resume::Single(value));
        if self.kind != InputKind::FreshIfNew {
            self.kind = InputKind::Command;
        }
        Ok(self)
    }

    /// Turns the input into a command that updates the thread's state before the run continues.
    #[must_use]
    pub fn with_update(mut self, update: S::Update) -> Self {
        self.update = Some(update);
        self.kind = InputKind::Command;
        self
    }

    /// Turns the input into a command that runs the targets of this route in addition to pending tasks.
    ///
    /// As in LangGraph, a [deferred](crate::NodeExt::defer) target runs only after a later step of the run, so a
    /// command whose only target is deferred runs nothing on a finished thread.
    #[must_use]
    pub fn goto(mut self, route: impl Route) -> Self {
        self.gotos.extend(route.gotos());
        self.kind = InputKind::Command;
        self
    }

    /// Converts the input to JSON for traces: the fields that it sets, or the parts of a command. Empty input becomes
    /// `null`.
    pub(crate) fn to_json(&self, graph: &Graph) -> Result<Value, FieldError> {
        let mut json = Map::new();
        if let Some(update) = &self.update {
            let state = graph.initial.as_any().downcast_ref::<S>();
            let writes = state.map_or(Ok(Vec::new()), |it| it.writes(update))?;
            json.insert("update".to_owned(), writes_to_json(&writes));
        }
        if !self.gotos.is_empty() {
            let names = self.gotos.iter().map(|it| it.to.as_str()).collect();
            json.insert("goto".to_owned(), names);
        }
        match &self.resume {
            Some(Resume::Single(value)) => drop(json.insert("resume".to_owned(), value.clone())),
            // Interrupt ids differ in every run, so they are left out.
            Some(Resume::ById(values)) => {
                drop(json.insert("resume".to_owned(), values.values().cloned().collect()));
            }
            None => {}
        }
        match self.kind {
            InputKind::FreshIfNew if self.resume.is_some() => Ok(Value::Object(json)),
            InputKind::Fresh | InputKind::WholeState | InputKind::FreshIfNew => {
                Ok(json.remove("update").unwrap_or_default())
            }
            InputKind::Command => Ok(Value::Object(json)),
        }
    }

    pub(crate) fn erase(self) -> RunInput {
        let update = self.update.map(|it| Box::new(it) as AnyUpdate);
        match (self.kind, update) {
            (InputKind::Fresh, Some(update)) => RunInput::Fresh(update),
            (InputKind::WholeState, Some(update)) => RunInput::WholeState(update),
            (InputKind::FreshIfNew, Some(update)) => RunInput::StartOrContinue(update, self.resume),
            (InputKind::Fresh | InputKind::WholeState | InputKind::FreshIfNew, None) => {
                RunInput::Continue
            }
            (InputKind::Command, update) => RunInput::Command(CommandInput {
                update,
                gotos: self.gotos.into_vec(),
                resume: self.resume,
                pending: None,
            }),
        }
    }
}

/// A value that a run takes as its input: a state, an update, or an [`Input`].
///
/// Implemented for all types that convert into [`Input`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the input of a graph with state `{S}`",
    label = "not an input of this graph",
    note = "pass a whole state, such as `{S} {{ .. }}`, an update, such as `{S}::update()`, or an `Input<{S}>`"
)]
pub trait IntoInput<S: State> {
    /// Converts the value into an input.
    fn into_input(self) -> Input<S>;
}

#[diagnostic::do_not_recommend]
impl<S: State, T: Into<Input<S>>> IntoInput<S> for T {
    fn into_input(self) -> Input<S> {
        self.into()
    }
}

impl<S: State> From<S> for Input<S> {
    fn from(state: S) -> Self {
        Self { kind: InputKind::WholeState, ..Self::update(state.into_update()) }
    }
}

impl<S: State> fmt::Debug for Input<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("updates", &self.update.is_some())
            .field("kind", &self.kind)
            .field("gotos", &self.gotos)
            .field("resumes", &self.resume.is_some())
            .finish()
    }
}
