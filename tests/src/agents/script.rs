//! Executes the calls of a case.

use std::{collections::BTreeMap, sync::Arc};

use graph_agents::{CompiledAgent, add_messages, messages_from_json, notation, tools_condition};
use graph_core::{
    AsNode, Event, EventKind, Input, JsonState, RunError, RunOptions, StateEdit, StreamMode,
    Thread, ThreadState,
};
use serde_json::{Map, Value, json};

use super::{
    answer::{self, Shown},
    build::{self, Built},
    case::{AgentCase, Kind},
    error::{agent_error, run_error},
    log::SharedLog,
    model::{CaseModel, usage},
    shared_data::SharedData,
};

/// Runs a case. Returns one answer per call, or a single answer if the graph cannot be built.
pub(super) async fn answers(case: &AgentCase) -> Vec<Value> {
    match case.kind {
        Kind::Reduce => return reduce(case),
        Kind::ToolsCondition => return case.states.iter().map(condition).collect(),
        Kind::ToolNode | Kind::Agent | Kind::Swarm | Kind::Supervisor => {}
    }
    let log = SharedLog::default();
    let model = |(name, spec): (&String, &Value)| {
        (name.clone(), Arc::new(CaseModel::new(name, spec, log.clone())))
    };
    let models: BTreeMap<_, _> = case.models.iter().map(model).collect();
    let shared = Arc::new(SharedData::new(log, models, &case.models));
    let built = match build::build(case, &shared) {
        Ok(built) => built,
        Err(error) => return vec![json!({"build_error": agent_error(&error)})],
    };
    let session = Session { case, shared, built, shown: Shown::new(case) };
    let mut answers = Vec::new();
    for call in &case.script {
        answers.push(session.shown.clean(session.answer(call).await));
    }
    answers
}

/// Applies updates to a list of messages with the messages reducer. Returns one answer per update.
fn reduce(case: &AgentCase) -> Vec<Value> {
    let mut labels = answer::Labels::new(case);
    let mut messages = match messages_from_json(&input_messages(case.left.clone())) {
        Ok(messages) => messages,
        Err(error) => return vec![json!({"error": agent_error(&error)})],
    };
    let mut answers = Vec::new();
    for fold in &case.folds {
        let update = messages_from_json(&input_messages(fold.clone()));
        match update.and_then(|it| add_messages(messages.clone(), it)) {
            Ok(merged) => messages = merged,
            Err(error) => {
                answers.push(json!({"error": agent_error(&error)}));
                break;
            }
        }
        answers.push(json!({"messages": labels.show(&messages)}));
    }
    answers
}

fn condition(state: &Value) -> Value {
    let messages = match state {
        Value::Object(fields) => fields.get("messages").cloned().unwrap_or_else(|| json!([])),
        list => list.clone(),
    };
    let messages = messages_from_json(&input_messages(messages)).expect("valid messages");
    match tools_condition(&messages) {
        Ok(next) => json!(next),
        Err(error) => json!({"error": {"class": error.name()}}),
    }
}

/// Converts messages from the case format to JSON that `graph-agents` accepts.
fn input_messages(messages: Value) -> Value {
    match messages {
        Value::Array(items) => items.into_iter().map(input_messages).collect(),
        Value::Object(mut object) => match object.remove("like") {
            Some(like) => like,
            None => {
                if let Some(usage) = object.get("usage").and_then(usage) {
                    object.insert("usage".to_owned(), json!(usage));
                }
                Value::Object(object)
            }
        },
        other => other,
    }
}

/// A graph, and the state that is kept between calls.
struct Session<'a> {
    case: &'a AgentCase,
    shared: Arc<SharedData>,
    built: Built,
    shown: Shown,
}

impl Session<'_> {
    fn has_checkpointer(&self) -> bool {
        self.case.checkpointer != Some(false)
    }

    async fn answer(&self, call: &Value) -> Value {
        if call.get("graph").is_some() {
            return answer::graph(&self.built.graph);
        }
        if call.get("state").is_some() {
            let state = self.thread(call).state().await;
            return state.ok().flatten().map_or(Value::Null, |it| {
                json!({
                    "values": it.values.to_full_value(),
                    "next": sorted(it.next.iter().map(|it| json!(it)).collect()),
                    "interrupts": interrupts(&it),
                })
            });
        }
        if call.get("update_state").is_some() {
            return self.update_state(call).await;
        }
        self.run(call).await
    }

    async fn update_state(&self, call: &Value) -> Value {
        let thread = self.thread(call);
        let update = self.built.schema.update(self.input_fields(&call["update_state"]));
        let as_node =
            call["as_node"].as_str().map_or(AsNode::Last, |it| AsNode::node(it.to_owned()));
        let edit = StateEdit { update: update.ok(), as_node };
        if let Err(error) = thread.bulk_update_state([[edit]]).await {
            return json!({"error": run_error(&error)});
        }
        let state =
            self.thread(call).state().await.ok().flatten().expect("an edited thread has a state");
        let next = sorted(state.next.iter().map(|it| json!(it)).collect());
        json!({"values": state.values.to_full_value(), "next": next})
    }

    fn input_fields(&self, input: &Value) -> Value {
        let mut fields = input.clone();
        if let Some(messages) = fields.get_mut("messages") {
            *messages = input_messages(messages.take());
        }
        fields
    }

    async fn run(&self, call: &Value) -> Value {
        self.shared.log().take();
        let mut trace = RunTrace::default();
        let result = self.execute(call, &mut trace).await;
        let mut answer = Map::new();
        let error = result.as_ref().err().map_or(Value::Null, run_error);
        let output = trace.output.filter(|_| result.is_ok()).unwrap_or_default();
        answer.insert("error".to_owned(), error);
        answer.insert("output".to_owned(), output);
        let updates = trace.updates.into_values().map(|it| self.sorted(it));
        answer.insert("updates".to_owned(), updates.collect());
        let unreadable = matches!(&result, Err(RunError::Conflict(_)));
        if self.has_checkpointer() {
            let state = self.thread(call).state().await.ok().flatten();
            let pending = state.as_ref().map_or_else(|| json!([]), interrupts);
            answer.insert("interrupts".to_owned(), pending);
            if !unreadable {
                let next = state.iter().flat_map(|it| &it.next).map(|it| json!(it)).collect();
                answer.insert("next".to_owned(), sorted(next));
            }
        } else {
            answer.insert("interrupts".to_owned(), sorted(trace.interrupts));
        }
        let (model_calls, tool_runs, hooks) = self.shared.log().take();
        if self.case.kind != Kind::ToolNode {
            answer.insert("model_calls".to_owned(), self.model_calls(model_calls));
        }
        answer.insert("tool_runs".to_owned(), sorted(tool_runs));
        if !hooks.is_empty() {
            answer.insert("trace".to_owned(), self.order(hooks));
        }
        let modes = call["stream"].as_array().cloned().unwrap_or_default();
        if modes.contains(&json!("values")) {
            answer.insert("values".to_owned(), Value::from(trace.values));
        }
        if modes.contains(&json!("messages")) {
            answer.insert("messages_stream".to_owned(), answer::message_stream(trace.messages));
        }
        if !trace.custom.is_empty() {
            answer.insert("custom".to_owned(), Value::from(trace.custom));
        }
        Value::Object(answer)
    }

    fn model_calls(&self, mut calls: Vec<Value>) -> Value {
        if self.case.kind == Kind::Supervisor {
            for call in calls.iter_mut().filter(|it| it["model"] == "supervisor") {
                let tools = call["tools"].as_array().cloned().unwrap_or_default();
                call["tools"] = sorted(tools);
            }
        }
        self.order(calls)
    }

    /// Sorts a list if the case says that its order varies.
    fn order(&self, list: Vec<Value>) -> Value {
        if self.case.unordered { self.sorted(list) } else { Value::from(list) }
    }

    /// Converts the items of a list to the form of the case files, and sorts them by their JSON text.
    fn sorted(&self, list: Vec<Value>) -> Value {
        sorted(list.into_iter().map(|it| self.shown.clean(it)).collect())
    }

    async fn execute(&self, call: &Value, trace: &mut RunTrace) -> Result<(), RunError> {
        let input = self.input(call).await?;
        let mut events = match self.has_checkpointer() {
            true => self.thread(call).stream(input),
            false => self.built.graph.with(options(call)).stream(input, ()),
        };
        while let Some(event) = events.next().await {
            trace.record(event);
        }
        events.finish().await.map(drop)
    }

    async fn input(&self, call: &Value) -> Result<Input<JsonState>, RunError> {
        if let Some(questions) = call["resume_map"].as_array() {
            let state = self.thread(call).state().await?;
            let pending = state.iter().flat_map(ThreadState::interrupts);
            let answers = pending.filter_map(|it| {
                let pair = questions.iter().find(|pair| pair[0] == it.value)?;
                Some((it.id.clone(), pair[1].clone()))
            });
            return Ok(Input::resume_by_id(answers.collect::<Vec<_>>()));
        }
        if let Some(answer) = call.get("resume") {
            return Input::resume(answer);
        }
        match &call["invoke"] {
            Value::Null => Ok(Input::proceed()),
            fields => Ok(self.built.schema.input(self.input_fields(fields))?),
        }
    }

    fn thread(&self, call: &Value) -> Thread<JsonState> {
        let name = call["thread"].as_str().unwrap_or("t");
        self.built.graph.thread(name, ()).with_options(options(call))
    }
}

fn options(call: &Value) -> RunOptions {
    let options = match call["recursion_limit"].as_u64() {
        Some(limit) => RunOptions::new().step_limit(u32::try_from(limit).unwrap_or(u32::MAX)),
        None => CompiledAgent::run_options(),
    };
    options.stream_modes([
        StreamMode::Values,
        StreamMode::Updates,
        StreamMode::Custom,
        StreamMode::Messages,
    ])
}

fn interrupts(state: &ThreadState<JsonState>) -> Value {
    // A task that failed after it was resumed keeps its interrupt, but LangGraph does not show such an interrupt.
    let waiting = state.tasks.iter().filter(|it| it.error.is_none());
    sorted(waiting.flat_map(|it| &it.interrupts).map(|it| it.value.clone()).collect())
}

/// Sorts a list by the JSON text of its items.
fn sorted(mut list: Vec<Value>) -> Value {
    list.sort_by_cached_key(notation::spaced_json);
    Value::from(list)
}

/// Events that were collected from a run.
#[derive(Debug, Default)]
struct RunTrace {
    values: Vec<Value>,
    output: Option<Value>,
    updates: BTreeMap<i64, Vec<Value>>,
    messages: Vec<(String, Value)>,
    custom: Vec<Value>,
    interrupts: Vec<Value>,
}

impl RunTrace {
    fn record(&mut self, event: Event) {
        let node = event.node.as_deref().unwrap_or_default().to_owned();
        match event.kind {
            EventKind::Values(values) => {
                if let Some(state) = values.get::<JsonState>().filter(|_| values.touches_output()) {
                    self.output = Some(state.to_value());
                }
                self.values.push(values.get().map(JsonState::to_full_value).unwrap_or_default());
            }
            EventKind::Update { writes, cached, .. } => {
                let mut shown = Map::from_iter([(node, crate::answer::update(&writes))]);
                if cached {
                    shown.insert("__cached__".to_owned(), Value::Bool(true));
                }
                self.updates.entry(event.step).or_default().push(Value::Object(shown));
            }
            EventKind::Custom(value) => self.custom.push(value),
            EventKind::Message(message) => self.messages.push((node, message)),
            EventKind::Interrupted(interrupts) => {
                self.interrupts.extend(interrupts.into_iter().map(|it| it.value));
            }
            _ => {}
        }
    }
}
