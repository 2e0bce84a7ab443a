//! The calls of a script, made on the engine.

use std::sync::Arc;

use graph_core::{
    AsNode, Edit, Exit, Input, JsonState, Mode, RunError, RunOptions, Stops, Thread, ThreadState,
    checkpoint::Checkpointer,
};
use serde_json::{Value, json};

use crate::{
    answer::{self, Trace},
    build::{self, Built, Kit},
    case::{Call, Case, EditSpec, InputCommand},
    error::Fault,
    expr::Env,
    node::gotos,
};

/// Runs a case: one answer for each call, or one in all where its graph cannot be built.
pub(crate) async fn answers(case: &Case, saver: &Arc<dyn Checkpointer>) -> Vec<Value> {
    let kit = Kit::new(saver.clone());
    let Ok(built) = build::root(&case.graph, &kit) else {
        return vec![json!({ "error": "invalid_graph" })];
    };
    let keeps = case.graph.compile.checkpointer != Some(false);
    let session = Session { built, kit, keeps };
    let mut answers = Vec::new();
    for call in &case.script {
        answers.push(session.answer(call).await);
    }
    answers
}

/// A graph with what is kept between calls.
struct Session {
    built: Built,
    kit: Kit,
    /// Whether the graph has a checkpointer.
    keeps: bool,
}

impl Session {
    async fn answer(&self, call: &Call) -> Value {
        if call.runs() {
            return self.run(call).await;
        }
        let answer = self.look(call).await;
        answer.unwrap_or_else(|fault| json!({ "error": fault.code() }))
    }

    async fn run(&self, call: &Call) -> Value {
        let board = &self.kit.board;
        board.take_calls();
        let mut trace = Trace::default();
        let exit = self.exit(call, &mut trace).await;
        if let Err(fault) = &exit {
            board.learn(fault.text(), fault.code());
        }
        let output = trace.take_output().filter(|_| exit.is_ok());
        let mut answer = trace.answer(board);
        answer.insert("output".to_owned(), output.unwrap_or_default());
        answer.insert("error".to_owned(), exit.err().map(|it| it.code()).into());
        answer.insert("calls".to_owned(), json!(board.take_calls()));
        if let Some(name) = call.thread.as_ref().filter(|_| self.keeps) {
            let state = self.built.graph.thread(name, ()).state().await;
            let (interrupts, next) = pending(state);
            answer.insert("interrupts".to_owned(), interrupts);
            answer.insert("next".to_owned(), next);
        }
        Value::Object(answer)
    }

    async fn exit(&self, call: &Call, trace: &mut Trace) -> Result<Exit<JsonState>, Fault> {
        let input = self.input(call).await?;
        let mut events = if self.keeps && call.thread.is_some() {
            self.thread(call).await?.stream(input)
        } else {
            self.built.graph.stream(input, (), options(call))
        };
        while let Some(event) = events.next().await {
            trace.note(event);
        }
        Ok(events.finish().await?)
    }

    async fn input(&self, call: &Call) -> Result<Input<JsonState>, Fault> {
        if let Some(questions) = &call.resume_map {
            let state = self.thread(call).await?.state().await?;
            let pending = state.iter().flat_map(ThreadState::interrupts);
            let answers = pending.filter_map(|it| {
                let (_, answer) = questions.iter().find(|(question, _)| *question == it.value)?;
                Some((it.id.clone(), answer.clone()))
            });
            return Ok(Input::answers(answers.collect::<Vec<_>>()));
        }
        if let Some(answer) = &call.resume {
            return Ok(Input::resume(answer)?);
        }
        if let Some(command) = &call.command {
            return self.command(command);
        }
        match &call.invoke {
            None => Err(Fault::UnknownCall),
            Some(Value::Null) => Ok(Input::proceed()),
            Some(input) => Ok(self.built.schema.input(input.clone())?),
        }
    }

    fn command(&self, command: &InputCommand) -> Result<Input<JsonState>, Fault> {
        let mut input = Input::command();
        if let Some(update) = &command.update {
            input = input.with_update(self.built.schema.update(Value::Object(update.clone()))?);
        }
        if command.goto.is_some() {
            // Null among the targets is for branches alone.
            let gotos = gotos(&command.goto, &Env::default()).map_err(|_| Fault::UnknownCall)?;
            input = input.goto(gotos);
        }
        match &command.resume {
            Some(answer) => Ok(input.answer(answer)?),
            None => Ok(input),
        }
    }

    async fn look(&self, call: &Call) -> Result<Value, Fault> {
        let thread = self.thread(call).await?;
        if call.history {
            let history = thread.history(None).await?;
            return Ok(history.iter().map(|it| answer::state(it, &self.kit.board)).collect());
        }
        if call.namespaces {
            let counted = self.kit.saver.namespaces(thread.name()).await.map_err(RunError::from)?;
            let shown = counted.iter().map(|(name, n)| json!([answer::without_task_ids(name), n]));
            return Ok(shown.collect());
        }
        if call.state {
            let state = match call.subgraphs {
                true => thread.state_with_subgraphs().await?,
                false => thread.state().await?,
            };
            return Ok(self.state(state.as_ref()));
        }
        thread.edit_steps(self.edits(call)?).await?;
        let newest = self.built.graph.thread(thread.name(), ()).state().await?;
        Ok(self.state(newest.as_ref()))
    }

    fn state(&self, state: Option<&ThreadState<JsonState>>) -> Value {
        state.map_or_else(answer::no_state, |it| answer::state(it, &self.kit.board))
    }

    fn edits(&self, call: &Call) -> Result<Vec<Vec<Edit<JsonState>>>, Fault> {
        if let Some(steps) = &call.bulk_update {
            let step = |step: &Vec<EditSpec>| {
                step.iter().map(|it| self.edit(&it.values, it.as_node.as_deref())).collect()
            };
            return steps.iter().map(step).collect();
        }
        let values = call.update_state.as_ref().ok_or(Fault::UnknownCall)?;
        Ok(vec![vec![self.edit(values, call.as_node.as_deref())?]])
    }

    fn edit(&self, values: &Value, as_node: Option<&str>) -> Result<Edit<JsonState>, Fault> {
        let update = match values {
            Value::Null => None,
            values => Some(self.built.schema.update(values.clone())?),
        };
        let as_node = match as_node {
            None => AsNode::Last,
            Some("__input__") => AsNode::Input,
            Some("__copy__") => AsNode::Copy,
            Some(name) => AsNode::node(name),
        };
        Ok(Edit { update, as_node })
    }

    /// The thread of a call, at the snapshot it names.
    async fn thread(&self, call: &Call) -> Result<Thread<JsonState>, Fault> {
        let name = call.thread.as_ref().ok_or(RunError::MissingThread)?;
        let thread = self.built.graph.thread(name, ()).with(options(call));
        let Some(place) = call.at else { return Ok(thread) };
        let history = thread.history(None).await?;
        let snapshot = history.get(place).ok_or(Fault::NoSnapshot(place))?;
        Ok(thread.at(snapshot.id))
    }
}

fn options(call: &Call) -> RunOptions {
    let mut options = RunOptions::new()
        .limit(u32::try_from(call.recursion_limit).unwrap_or(0))
        .durability(call.durability.into())
        .modes([Mode::Values, Mode::Updates, Mode::Custom, Mode::Tasks]);
    // An empty list leaves the compiled stops as they are.
    if let Some(stops) = call.interrupt_before.as_ref().filter(|it| !it.is_empty()) {
        options = options.stop_before(Stops::from(stops));
    }
    if let Some(stops) = call.interrupt_after.as_ref().filter(|it| !it.is_empty()) {
        options = options.stop_after(Stops::from(stops));
    }
    options
}

/// The questions and the nodes that wait on a thread.
fn pending(state: Result<Option<ThreadState<JsonState>>, RunError>) -> (Value, Value) {
    match state {
        Ok(Some(state)) => {
            let questions = state.interrupts().map(|it| it.value.clone()).collect();
            (questions, json!(state.next))
        }
        Ok(None) => (json!([]), json!([])),
        Err(error) => (json!({ "error": error.to_string() }), Value::Null),
    }
}
