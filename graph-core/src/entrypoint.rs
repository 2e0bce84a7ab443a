//! The functional way: one function whose outside calls are journaled, and which remembers its last result.

use std::{fmt, future::Future, marker::PhantomData, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    BuildError, CompiledGraph, Context, Exit, Input, Interrupt, JsonKind, JsonSchema, JsonState,
    NodeError, RunError, START, StateGraph, Stop, Thread,
    checkpoint::Checkpointer,
    json::{JsonInput, json_node},
    state::FieldError,
    store::Store,
};

/// A function as a whole program: input in, output out, its outside calls journaled with
/// [`Context::task`], its questions asked with [`Context::interrupt`].
///
/// The function gets its input, what it saved at the end of the thread's last run, and the context.
///
/// ```
/// use graph_core::{Context, Entrypoint, MemorySaver};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let counter = Entrypoint::new("counter", |add: u64, last: Option<u64>, cx: Context| async move {
///     let fetched: u64 = cx.task("fetch", add, async { Ok(add * 10) }).await?;
///     Ok(last.unwrap_or(0) + fetched)
/// })
/// .checkpointer(MemorySaver::new())
/// .compile()?;
/// let thread = counter.thread("t", ());
/// assert_eq!(thread.run(1).await?.done(), Some(10));
/// assert_eq!(thread.run(2).await?.done(), Some(30));
/// # Ok(())
/// # }
/// ```
pub struct Entrypoint<I, O, C = ()> {
    name: String,
    graph: StateGraph<JsonState, C>,
    schema: JsonSchema,
    types: PhantomData<fn(I) -> O>,
}

/// What an entrypoint returns where it saves something else than it gives out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Final<O, P> {
    /// What the caller gets.
    pub value: O,
    /// What the next run on the thread finds.
    pub save: P,
}

/// What an entrypoint may return: its output, which is saved too, or a [`Final`].
pub trait IntoFinal<O, P> {
    /// The output and what to save.
    fn into_final(self) -> Result<(Value, Value), serde_json::Error>;
}

impl<O: Serialize> IntoFinal<O, O> for O {
    fn into_final(self) -> Result<(Value, Value), serde_json::Error> {
        let value = serde_json::to_value(self)?;
        Ok((value.clone(), value))
    }
}

impl<O: Serialize, P: Serialize> IntoFinal<O, P> for Final<O, P> {
    fn into_final(self) -> Result<(Value, Value), serde_json::Error> {
        Ok((serde_json::to_value(self.value)?, serde_json::to_value(self.save)?))
    }
}

const INPUT: &str = "input";
const OUTPUT: &str = "output";
const SAVED: &str = "saved";

impl<I, O, C> Entrypoint<I, O, C>
where
    I: Serialize + DeserializeOwned + Send + 'static,
    O: DeserializeOwned,
    C: Send + Sync + 'static,
{
    /// An entrypoint of this name.
    pub fn new<P, R, F, Fut>(name: impl Into<String>, function: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: IntoFinal<O, P>,
        F: Fn(I, Option<P>, Context<C>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, NodeError>> + Send + 'static,
    {
        let name = name.into();
        let fields = [(INPUT, JsonKind::Last), (OUTPUT, JsonKind::Last), (SAVED, JsonKind::Last)];
        let schema = JsonSchema::new(fields).expect("the three fields have three names");
        let function = Arc::new(function);
        let body = move |read: JsonInput, cx: Context<C>| {
            let function = function.clone();
            async move {
                let input = decode(&read, INPUT)?.ok_or("an entrypoint needs an input")?;
                let returned = function(input, decode(&read, SAVED)?, cx).await?;
                let (value, save) = returned.into_final().map_err(NodeError::terminal)?;
                let mut update = Map::new();
                update.insert(OUTPUT.to_owned(), value);
                update.insert(SAVED.to_owned(), save);
                Ok(Value::Object(update))
            }
        };
        let node = "entrypoint";
        let graph = schema.graph_with::<C>().name(&name).node(json_node(node, body));
        Self { name, graph: graph.edge(START, node), schema, types: PhantomData }
    }

    /// Keeps threads in this checkpointer.
    #[must_use]
    pub fn checkpointer(mut self, checkpointer: impl Checkpointer + 'static) -> Self {
        self.graph = self.graph.checkpointer(checkpointer);
        self
    }

    /// Gives the function a long-term store.
    #[must_use]
    pub fn store(mut self, store: impl Store + 'static) -> Self {
        self.graph = self.graph.store(store);
        self
    }

    /// Closes the entrypoint so that it can be run.
    pub fn compile(self) -> Result<CompiledEntrypoint<I, O, C>, BuildError> {
        let graph = self.graph.compile()?;
        Ok(CompiledEntrypoint { graph, schema: self.schema, types: PhantomData })
    }
}

fn decode<T: DeserializeOwned>(read: &JsonInput, field: &str) -> Result<Option<T>, NodeError> {
    let Some(value) = read.get(field) else { return Ok(None) };
    let value = serde_json::from_value(value.clone());
    value.map(Some).map_err(|error| NodeError::terminal(FieldError::new(field, error)))
}

impl<I, O, C> fmt::Debug for Entrypoint<I, O, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entrypoint").field("name", &self.name).finish_non_exhaustive()
    }
}

/// An entrypoint that can be run: see [`Entrypoint`].
pub struct CompiledEntrypoint<I, O, C = ()> {
    graph: CompiledGraph<JsonState, C>,
    schema: JsonSchema,
    types: PhantomData<fn(I) -> O>,
}

impl<I: Serialize, O: DeserializeOwned, C: Send + Sync + 'static> CompiledEntrypoint<I, O, C> {
    /// Runs it once, without a thread.
    pub async fn run(&self, input: I, deps: C) -> Result<O, RunError> {
        output(&self.graph.run(entry(&self.schema, input)?, deps).await?)
    }

    /// A thread of this name: the function finds there what it saved.
    pub fn thread(&self, name: impl Into<String>, deps: C) -> EntryThread<I, O, C> {
        EntryThread {
            thread: self.graph.thread(name, deps),
            schema: self.schema.clone(),
            types: PhantomData,
        }
    }

    /// The graph behind it, for drawings, streams and whatever else graphs can do.
    pub fn graph(&self) -> &CompiledGraph<JsonState, C> {
        &self.graph
    }
}

impl<I, O, C> fmt::Debug for CompiledEntrypoint<I, O, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledEntrypoint").field("graph", &self.graph).finish_non_exhaustive()
    }
}

/// A thread of an entrypoint.
pub struct EntryThread<I, O, C = ()> {
    thread: Thread<JsonState, C>,
    schema: JsonSchema,
    types: PhantomData<fn(I) -> O>,
}

impl<I: Serialize, O: DeserializeOwned, C: Send + Sync + 'static> EntryThread<I, O, C> {
    /// Runs the function on an input.
    pub async fn run(&self, input: I) -> Result<EntryExit<O>, RunError> {
        EntryExit::new(self.thread.run(entry(&self.schema, input)?).await?)
    }

    /// Goes on after a failure: journaled calls are not made again.
    pub async fn proceed(&self) -> Result<EntryExit<O>, RunError> {
        EntryExit::new(self.thread.proceed().await?)
    }

    /// Answers the question that waits.
    pub async fn resume(&self, answer: impl Serialize) -> Result<EntryExit<O>, RunError> {
        EntryExit::new(self.thread.resume(answer).await?)
    }
}

impl<I, O, C> fmt::Debug for EntryThread<I, O, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryThread").field("thread", &self.thread).finish_non_exhaustive()
    }
}

/// How a run of an entrypoint ended.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub enum EntryExit<O> {
    /// With its output.
    Done(O),
    /// With a question.
    Interrupted(Vec<Interrupt>),
    /// Because it was drained before it started.
    Stopped(Stop),
}

impl<O: DeserializeOwned> EntryExit<O> {
    fn new(exit: Exit<JsonState>) -> Result<Self, RunError> {
        match exit {
            Exit::Done(state) => output(&state).map(Self::Done),
            Exit::Interrupted { interrupts, .. } => Ok(Self::Interrupted(interrupts)),
            Exit::Stopped { stop, .. } => Ok(Self::Stopped(stop)),
        }
    }
}

impl<O> EntryExit<O> {
    /// The output, if there is one.
    pub fn done(self) -> Option<O> {
        match self {
            Self::Done(output) => Some(output),
            _ => None,
        }
    }
}

fn entry<I: Serialize>(schema: &JsonSchema, input: I) -> Result<Input<JsonState>, RunError> {
    let value = serde_json::to_value(input).map_err(|error| FieldError::encode(INPUT, &error))?;
    let mut object = Map::new();
    object.insert(INPUT.to_owned(), value);
    Ok(schema.input(Value::Object(object))?)
}

fn output<O: DeserializeOwned>(state: &JsonState) -> Result<O, RunError> {
    let value = state.get(OUTPUT).cloned().unwrap_or_default();
    serde_json::from_value(value).map_err(|error| FieldError::new(OUTPUT, error).into())
}
