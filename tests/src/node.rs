//! Nodes and branches: the interpreter of ops, rules and targets.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use graph_core::{
    Command, Context, Goto, JsonSchema, JsonState, NodeError,
    json::{JsonInput, JsonReturn, JsonUpdate},
};
use serde_json::Value;

use crate::{
    board::Board,
    build::{Built, persistence},
    case::{BranchSpec, CommandSpec, InOrder, Op, TargetSpec, Targets},
    error::{NullTarget, Scripted, message},
    expr::{Env, Expr, evaluate, evaluate_write, is_true},
};

/// The body of a node or of a handler. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Body {
    pub(crate) script: Arc<Script>,
}

/// What a body does.
pub(crate) struct Script {
    /// The name it is counted under.
    pub(crate) name: String,
    pub(crate) ops: Vec<Op>,
    /// The graphs that ops call, by the place of the op.
    pub(crate) called: BTreeMap<usize, Built>,
    pub(crate) schema: JsonSchema,
    /// The schema of the graph around this one: a command to the parent updates that.
    pub(crate) parent: JsonSchema,
    pub(crate) board: Arc<Board>,
}

/// What ops have gathered so far.
#[derive(Default)]
struct Gathered {
    env: Env,
    writes: Vec<(String, (Value, bool))>,
    wrote: bool,
    goto: Option<Vec<Goto>>,
    goto_parent: Option<Vec<Goto>>,
}

impl Body {
    pub(crate) async fn run(self, input: JsonInput, cx: Context) -> Result<JsonReturn, NodeError> {
        let script = &*self.script;
        script.board.started(&script.name);
        let failure = cx.failure().map(|it| (it.node.clone(), message(&it.error).to_owned()));
        let env = Env { failure, ..Env::of(input.to_value()) };
        let mut gathered = Gathered { env, ..Gathered::default() };
        for (place, op) in script.ops.iter().enumerate() {
            if let Some(early) = script.step(place, op, &mut gathered, &cx).await? {
                return Ok(early);
            }
        }
        script.gathered(gathered)
    }
}

impl Script {
    /// Does one op; what it gives ends the node.
    async fn step(
        &self,
        place: usize,
        op: &Op,
        gathered: &mut Gathered,
        cx: &Context,
    ) -> Result<Option<JsonReturn>, NodeError> {
        let env = &mut gathered.env;
        match op {
            Op::Write { write } => {
                let values =
                    write.0.iter().map(|(field, it)| (field.clone(), evaluate_write(it, env)));
                gathered.writes.extend(values);
                gathered.wrote = true;
            }
            Op::Goto { goto } => gathered.goto = Some(gotos(goto, env)?),
            Op::GotoParent { goto_parent } => gathered.goto_parent = Some(gotos(goto_parent, env)?),
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
                let kept = persistence(*checkpointer);
                let output = cx.run_graph(&called.graph, kept, input).await?;
                let field = output.and_then(|it| it.to_value().get(read).cloned());
                env.vars.insert(r#as.clone(), field.unwrap_or_default());
            }
        }
        Ok(None)
    }

    fn fail(&self, place: usize, message: &str, times: u32, fatal: bool) -> Result<(), NodeError> {
        if !self.board.fails(format!("{}#{place}", self.name), times) {
            return Ok(());
        }
        let error = Scripted { message: message.to_owned() };
        Err(if fatal { NodeError::terminal(error) } else { error.into() })
    }

    fn command(&self, command: &CommandSpec, env: &Env) -> Result<Way, NodeError> {
        let goto = command.goto.as_ref().map(|it| gotos(it, env)).transpose()?;
        Ok(match &command.update {
            Some(update) => Command::new(self.update(update, env)?, goto.unwrap_or_default()),
            None => Command::goto(goto.unwrap_or_default()),
        })
    }

    fn update(&self, update: &InOrder<Expr>, env: &Env) -> Result<JsonUpdate, NodeError> {
        let values = update.0.iter().map(|(field, it)| (field.clone(), evaluate_write(it, env)));
        written(&self.schema, values)
    }

    /// What a node returns whose ops came to their end.
    fn gathered(&self, gathered: Gathered) -> Result<JsonReturn, NodeError> {
        let Gathered { writes, wrote, goto, goto_parent, .. } = gathered;
        Ok(match (goto_parent, goto) {
            (Some(goto), _) => {
                Way::parent::<JsonState>(written(&self.parent, writes)?, goto).into()
            }
            (None, Some(goto)) if wrote => Way::new(written(&self.schema, writes)?, goto).into(),
            (None, Some(goto)) => Way::goto(goto).into(),
            (None, None) if wrote => JsonReturn::Update(written(&self.schema, writes)?),
            (None, None) => JsonReturn::Nothing,
        })
    }
}

type Way = Command<JsonState, Vec<Goto>>;

/// Asks a branch for its targets.
pub(crate) fn route(branch: &BranchSpec, input: &JsonInput) -> Result<Vec<Goto>, NodeError> {
    let env = Env::of(input.to_value());
    let rule = branch.rules.iter().find(|it| is_true(&evaluate(&it.r#if, &env)));
    let targets = rule.map_or(&branch.r#else, |it| &it.to);
    Ok(gotos(targets, &env)?)
}

/// The places that targets stand for.
pub(crate) fn gotos(targets: &Targets, env: &Env) -> Result<Vec<Goto>, NullTarget> {
    let mut gotos = Vec::new();
    for target in targets.as_ref().ok_or(NullTarget)? {
        match target.as_ref().ok_or(NullTarget)? {
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

fn written(
    schema: &JsonSchema,
    values: impl IntoIterator<Item = (String, (Value, bool))>,
) -> Result<JsonUpdate, NodeError> {
    let written = values
        .into_iter()
        .try_fold(JsonUpdate::default(), |update, (field, (value, overwrite))| {
            update.write(schema, &field, value, overwrite)
        });
    written.map_err(NodeError::terminal)
}
