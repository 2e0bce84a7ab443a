//! What a run starts with.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    RunError, State,
    command::{Gotos, Route},
    engine::{CommandInput, Resume, RunInput},
    graph::Graph,
    node::AnyUpdate,
    state::FieldError,
    stream::writes_to_json,
};

/// What a run starts with: a state or an update as fresh input, nothing, or a command.
///
/// A state or an update turns into an input by itself: `graph.run(Essay { .. }, deps)`.
pub struct Input<S: State> {
    update: Option<S::Update>,
    /// Fresh input starts at START; a command changes where the thread stands.
    command: bool,
    gotos: Gotos,
    resume: Option<Resume>,
}

impl<S: State> Input<S> {
    /// Fresh input: the update is folded into the thread's state, and START runs next.
    pub fn update(update: S::Update) -> Self {
        Self { update: Some(update), command: false, gotos: Gotos::new(), resume: None }
    }

    /// No input: goes on where the thread stands.
    pub fn proceed() -> Self {
        Self { update: None, command: false, gotos: Gotos::new(), resume: None }
    }

    /// An empty command, to be filled with the methods below.
    pub fn command() -> Self {
        Self { update: None, command: true, gotos: Gotos::new(), resume: None }
    }

    /// A command that answers the one question that waits.
    ///
    /// Fails if the answer cannot be written as JSON.
    pub fn resume(answer: impl Serialize) -> Result<Self, RunError> {
        Self::command().answer(answer)
    }

    /// A command that answers questions by their ids.
    pub fn answers(answers: impl IntoIterator<Item = (String, Value)>) -> Self {
        let answers: BTreeMap<_, _> = answers.into_iter().collect();
        Self { resume: Some(Resume::Many(answers)), ..Self::command() }
    }

    /// Answers the one question that waits.
    pub fn answer(mut self, answer: impl Serialize) -> Result<Self, RunError> {
        let answer = serde_json::to_value(answer)
            .map_err(|error| RunError::InvalidUpdate(format!("the answer is no JSON: {error}")))?;
        self.resume = Some(Resume::One(answer));
        self.command = true;
        Ok(self)
    }

    /// Updates the state where the thread stands.
    #[must_use]
    pub fn with_update(mut self, update: S::Update) -> Self {
        self.update = Some(update);
        self.command = true;
        self
    }

    /// Goes there too, beside what is pending.
    #[must_use]
    pub fn goto(mut self, route: impl Route) -> Self {
        self.gotos.extend(route.gotos());
        self.command = true;
        self
    }

    /// The input as JSON, for a trace: the fields it sets, or what the command holds. `null` where nothing is given.
    pub(crate) fn to_json(&self, graph: &Graph) -> Result<Value, FieldError> {
        let mut shown = Map::new();
        if let Some(update) = &self.update {
            let state = graph.initial.as_any().downcast_ref::<S>();
            let writes = state.map_or(Ok(Vec::new()), |it| it.writes(update))?;
            shown.insert("update".to_owned(), writes_to_json(&writes));
        }
        if !self.gotos.is_empty() {
            let names = self.gotos.iter().map(|it| it.to.as_str()).collect();
            shown.insert("goto".to_owned(), names);
        }
        match &self.resume {
            Some(Resume::One(answer)) => drop(shown.insert("resume".to_owned(), answer.clone())),
            // Their ids are other ones in every run.
            Some(Resume::Many(answers)) => {
                drop(shown.insert("resume".to_owned(), answers.values().cloned().collect()));
            }
            None => {}
        }
        match (self.command, shown.remove("update")) {
            (false, update) => Ok(update.unwrap_or_default()),
            (true, update) => {
                shown.extend(update.map(|it| ("update".to_owned(), it)));
                Ok(Value::Object(shown))
            }
        }
    }

    pub(crate) fn erase(self) -> RunInput {
        let update = self.update.map(|it| Box::new(it) as AnyUpdate);
        match (self.command, update) {
            (false, Some(update)) => RunInput::Fresh(update),
            (false, None) => RunInput::Continue,
            (true, update) => RunInput::Command(CommandInput {
                update,
                gotos: self.gotos.into_vec(),
                resume: self.resume,
            }),
        }
    }
}

impl<S: State> From<S> for Input<S> {
    fn from(state: S) -> Self {
        Self::update(state.into_update())
    }
}

impl<S: State> fmt::Debug for Input<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("updates", &self.update.is_some())
            .field("command", &self.command)
            .field("gotos", &self.gotos)
            .field("resumes", &self.resume.is_some())
            .finish()
    }
}
