//! Interprets the operations of nodes, and the rules and targets of branches.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use graph_core::{
    Context, Goto, JsonState, JsonStateSchema, NodeError,
    json::{JsonCommand, JsonInput, JsonReturn, JsonUpdate},
};
use indexmap::IndexMap;
use serde_json::Value;

use crate::{
    built_graph::{BuiltGraph, persistence},
    case::{BranchSpec, CommandSpec, Op, TargetSpec, Targets},
    counters::Counters,
    error::{NullTargetError, ScriptedError, message},
    expr::{Env, Expr, evaluate, evaluate_write, is_true},
};

/// The executable body of a node or of an error handler. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Body {
    pub(crate) script: Arc<Script>,
}

/// The operations that a node or an error handler executes, and the data that these operations need.
pub(crate) struct Script {
    /// Name under which calls are counted.
    pub(crate) name: String,
    pub(crate) ops: Vec<Op>,
    /// The graphs that operations call, keyed by the index of the operation.
    pub(crate) called: BTreeMap<usize, BuiltGraph>,
    pub(crate) schema: JsonStateSchema,
    /// Schema of the enclosing graph. It is used by commands that update the enclosing graph.
    pub(crate) parent: JsonStateSchema,
    pub(crate) counters: Arc<Counters>,
    /// Determines how long a task of an eager graph takes. `None` in ordinary graphs.
    pub(crate) latencies: Option<u64>,
}

/// The effects of the operations that have been executed so far.
#[derive(Default)]
struct NodeOutput {
    env: Env,
    writes: Vec<(String, (Value, bool))>,
    wrote: bool,
    goto: Option<Vec<Goto>>,
    goto_parent: Option<Vec<Goto>>,
}

impl Body {
    pub(crate) async fn run(self, input: JsonInput, cx: Context) -> Result<JsonReturn, NodeError> {
        let script = &*self.script;
        script.counters.count_start(&script.name);
        let _running = script.counters.enter(cx.namespace(), cx.step());
        let result = script.run(input, &cx).await;
        script.take_time(&cx).await;
        result
    }
}

impl Script {
    async fn run(&self, input: JsonInput, cx: &Context) -> Result<JsonReturn, NodeError> {
        let failure = cx.failure().map(|it| (it.node.clone(), message(&it.error).to_owned()));
        let env = Env { failure, ..Env::of(input.to_value()) };
        let mut output = NodeOutput { env, ..NodeOutput::default() };
        for (place, op) in self.ops.iter().enumerate() {
            if let Some(returned) = self.step(place, op, &mut output, cx).await? {
                return Ok(returned);
            }
        }
        self.build_return(output)
    }

    /// Lets other tasks run, a number of times that depends on the node and the step. The operations are not delayed,
    /// so their order within a step does not change.
    async fn take_time(&self, cx: &Context) {
        let Some(latencies) = self.latencies else { return };
        let mut hasher = DefaultHasher::new();
        (latencies, &self.name, cx.step()).hash(&mut hasher);
        for _ in 0..[0, 2, 20, 60][(hasher.finish() % 4) as usize] {
            tokio::task::yield_now().await;
        }
    }

    /// Executes one operation. If the operation ends the node, returns the node's return value.
    async fn step(
        &self,
        place: usize,
        op: &Op,
        output: &mut NodeOutput,
        cx: &Context,
    ) -> Result<Option<JsonReturn>, NodeError> {
        let env = &mut output.env;
        match op {
            Op::Write { write } => {
                let values =
                    write.iter().map(|(field, it)| (field.clone(), evaluate_write(it, env)));
                output.writes.extend(values);
                output.wrote = true;
            }
            Op::Goto { goto } => output.goto = Some(gotos(goto, env)?),
            Op::GotoParent { goto_parent } => output.goto_parent = Some(gotos(goto_parent, env)?),
            Op::Commands { commands } => {
                let commands = commands.iter().map(|it| self.command(it, env));
                return Ok(Some(JsonReturn::Commands(commands.collect::<Result<_, _>>()?)));
            }
            Op::Raw { raw } => return Ok(Some(JsonReturn::from(evaluate(raw, env)))),
            Op::Interrupt { interrupt, r#as } => {
                let answer: Value = cx.interrupt(evaluate(interrupt, env))?;
                env.vars.insert(r#as.clone(), answer);
            }
            Op::Fail { fail, times, fatal } => self.fail(place, fail, *times, *fatal)?,
            Op::Emit { emit } => cx.emit(evaluate(emit, env)).await,
            Op::Sleep { sleep_ms } => tokio::time::sleep(Duration::from_millis(*sleep_ms)).await,
            Op::Call { with, read, r#as, checkpointer, .. } => {
                let called = &self.called[&place];
                let input =
                    called.schema.input(evaluate(with, env)).map_err(NodeError::terminal)?;
                let persistence_mode = persistence(*checkpointer);
                let output = cx.run_graph(&called.graph, persistence_mode, input).await?;
                let field = output.and_then(|it| it.to_value().get(read).cloned());
                env.vars.insert(r#as.clone(), field.unwrap_or_default());
            }
        }
        Ok(None)
    }

    fn fail(&self, place: usize, message: &str, times: u32, fatal: bool) -> Result<(), NodeError> {
        if !self.counters.should_fail(format!("{}#{place}", self.name), times) {
            return Ok(());
        }
        let error = ScriptedError { message: message.to_owned() };
        Err(if fatal { NodeError::terminal(error) } else { error.into() })
    }

    fn command(&self, command: &CommandSpec, env: &Env) -> Result<JsonCommand, NodeError> {
        let goto = command.goto.as_ref().map(|it| gotos(it, env)).transpose()?;
        Ok(match &command.update {
            Some(update) => JsonCommand::new(self.update(update, env)?, goto.unwrap_or_default()),
            None => JsonCommand::goto(goto.unwrap_or_default()),
        })
    }

    fn update(&self, update: &IndexMap<String, Expr>, env: &Env) -> Result<JsonUpdate, NodeError> {
        let values = update.iter().map(|(field, it)| (field.clone(), evaluate_write(it, env)));
        to_update(&self.schema, values)
    }

    /// Builds the return value of a node after its last operation.
    fn build_return(&self, output: NodeOutput) -> Result<JsonReturn, NodeError> {
        let NodeOutput { writes, wrote, goto, goto_parent, .. } = output;
        Ok(match (goto_parent, goto) {
            (Some(goto), _) => {
                JsonCommand::parent::<JsonState>(to_update(&self.parent, writes)?, goto).into()
            }
            (None, Some(goto)) if wrote => {
                JsonCommand::new(to_update(&self.schema, writes)?, goto).into()
            }
            (None, Some(goto)) => JsonCommand::goto(goto).into(),
            (None, None) if wrote => JsonReturn::Update(to_update(&self.schema, writes)?),
            (None, None) => JsonReturn::Nothing,
        })
    }
}

/// Evaluates a branch and returns its targets.
pub(crate) fn route(branch: &BranchSpec, input: &JsonInput) -> Result<Vec<Goto>, NodeError> {
    let env = Env::of(input.to_value());
    let rule = branch.rules.iter().find(|it| is_true(&evaluate(&it.r#if, &env)));
    let targets = rule.map_or(&branch.r#else, |it| &it.to);
    Ok(gotos(targets, &env)?)
}

/// Converts targets to gotos.
pub(crate) fn gotos(targets: &Targets, env: &Env) -> Result<Vec<Goto>, NullTargetError> {
    let mut gotos = Vec::new();
    for target in targets.as_ref().ok_or(NullTargetError)? {
        match target.as_ref().ok_or(NullTargetError)? {
            TargetSpec::Name(name) => gotos.push(Goto::node(name.clone())),
            TargetSpec::Send { send, each: None, arg } => {
                gotos.push(Goto::send(send.clone(), evaluate(arg, env)));
            }
            TargetSpec::Send { send, each: Some(each), arg } => {
                let Value::Array(items) = evaluate(each, env) else { continue };
                let mut env = env.clone();
                gotos.extend(items.into_iter().map(|item| {
                    env.item = item;
                    Goto::send(send.clone(), evaluate(arg, &env))
                }));
            }
        }
    }
    Ok(gotos)
}

fn to_update(
    schema: &JsonStateSchema,
    values: impl IntoIterator<Item = (String, (Value, bool))>,
) -> Result<JsonUpdate, NodeError> {
    let update = values
        .into_iter()
        .try_fold(JsonUpdate::default(), |update, (field, (value, overwrite))| {
            update.write(schema, &field, value, overwrite)
        });
    update.map_err(NodeError::terminal)
}
