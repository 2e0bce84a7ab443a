//! The functional API, which runs a single function as a graph, journals its external calls and saves a value between
//! runs.

use std::{fmt, future::Future, marker::PhantomData, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    cache::Cache,
    checkpoint::saver::Checkpointer,
    context::Context,
    engine::edit::AsNode,
    error::{NodeError, RunError},
    graph::{
        build::StateGraph, build_error::BuildError, compiled::CompiledGraph,
        run_options::RunOptions,
    },
    interrupt::{Interrupt, StopReason},
    json::{
        field_kind::JsonFieldKind,
        input::JsonInput,
        node::json_node,
        state::{JsonState, JsonStateSchema},
    },
    label::START,
    run::{input::Input, outcome::RunOutcome, stream::RunStream, thread::Thread},
    shared::IntoShared,
    state::field::FieldError,
    store::interface::Store,
};

/// Builder for an entrypoint, which is a function that runs as a graph with a single node.
///
/// The function receives its input, the value that the thread's last run saved, and the context. It can journal
/// external calls with [`Context::task`] and interrupt the run with [`Context::interrupt`].
///
/// ```
/// use graph_core::{Context, Entrypoint, MemorySaver};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let counter = Entrypoint::new("counter", |add: u64, last: Option<u64>, cx: Context| async move {
///     let fetched: u64 = cx.task("fetch", add, async { Ok(add * 10) }).await?;
///     Ok(last.unwrap_or(0) + fetched)
/// })
/// .checkpointer(MemorySaver::new())
/// .compile()?;
/// let thread = counter.thread("t", ());
/// assert_eq!(thread.run(1).await?.done(), Some(10));
/// assert_eq!(thread.run(2).await?.done(), Some(30));
/// # Ok(()) }
/// ```
pub struct Entrypoint<I, O, C = ()> {
    name: String,
    graph: StateGraph<JsonState, C>,
    schema: JsonStateSchema,
    types: PhantomData<fn(I) -> O>,
}

/// Return value of an entrypoint that saves a value other than its output, like LangGraph's `entrypoint.final`.
///
/// ```
/// use graph_core::{Context, Entrypoint, Final, MemorySaver};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let greet = Entrypoint::new("greet", |name: String, visits: Option<u32>, _: Context| async move {
///     let visits = visits.unwrap_or(0) + 1;
///     Ok(Final { value: format!("Hello {name}, visit {visits}"), save: visits })
/// })
/// .checkpointer(MemorySaver::new())
/// .compile()?;
/// let thread = greet.thread("ada", ());
/// thread.run("Ada".to_owned()).await?;
/// assert_eq!(thread.run("Ada".to_owned()).await?.done().as_deref(), Some("Hello Ada, visit 2"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Final<O, P> {
    /// Output that is returned to the caller.
    pub value: O,
    /// Value that is saved for the next run on the thread.
    pub save: P,
}

/// A return type of an entrypoint: the output, which is also saved, or a [`Final`].
pub trait IntoFinal<O, P> {
    /// Serialises the output and the value to save.
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

/// Name of the node that runs the function.
const NODE: &str = "entrypoint";

const INPUT: &str = "input";

const OUTPUT: &str = "output";

const SAVED: &str = "saved";

impl<I, O, C> Entrypoint<I, O, C>
where
    I: Serialize + DeserializeOwned + Send + 'static,
    O: DeserializeOwned,
    C: Send + Sync + 'static,
{
    /// Creates an entrypoint with the given name and function.
    pub fn new<P, R, F, Fut>(name: impl Into<String>, function: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: IntoFinal<O, P>,
        F: Fn(I, Option<P>, Context<C>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, NodeError>> + Send + 'static,
    {
        let name = name.into();
        let fields = [
            (INPUT, JsonFieldKind::Last),
            (OUTPUT, JsonFieldKind::Last),
            (SAVED, JsonFieldKind::Last),
        ];
        let schema = JsonStateSchema::new(fields).expect("the field names are distinct");
        let function = Arc::new(function);
        let body = move |read: JsonInput, cx: Context<C>| {
            let function = function.clone();
            async move {
                let input =
                    decode(&read, INPUT)?.ok_or("the entrypoint was run without an input")?;
                let returned = function(input, decode(&read, SAVED)?, cx).await?;
                let (value, save) = returned.into_final().map_err(NodeError::terminal)?;
                Ok(Value::from_iter([(OUTPUT, value), (SAVED, save)]))
            }
        };
        let graph = schema.graph_with::<C>().name(&name).node(json_node(NODE, body));
        Self { name, graph: graph.edge(START, NODE), schema, types: PhantomData }
    }

    /// Sets the checkpointer that stores the entrypoint's threads.
    #[must_use]
    pub fn checkpointer<M>(mut self, checkpointer: impl IntoShared<dyn Checkpointer, M>) -> Self {
        self.graph = self.graph.checkpointer(checkpointer);
        self
    }

    /// Sets the long-term store. The function accesses it with [`Context::store`].
    #[must_use]
    pub fn store<M>(mut self, store: impl IntoShared<dyn Store, M>) -> Self {
        self.graph = self.graph.store(store);
        self
    }

    /// Sets the cache for calls made with [`Context::task_with`].
    #[must_use]
    pub fn cache<M>(mut self, cache: impl IntoShared<dyn Cache, M>) -> Self {
        self.graph = self.graph.cache(cache);
        self
    }

    /// Compiles the entrypoint so that it can be run.
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

/// A runnable entrypoint, which [`Entrypoint::compile`] returns.
///
/// ```
/// use graph_core::{Context, Entrypoint};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let shout = Entrypoint::new("shout", |text: String, _: Option<String>, _: Context| async move {
///     Ok(text.to_uppercase())
/// })
/// .compile()?;
/// assert_eq!(shout.invoke("tea".to_owned(), ()).await?, "TEA");
/// assert!(shout.graph().mermaid().contains("entrypoint"));
/// # Ok(()) }
/// ```
pub struct CompiledEntrypoint<I, O, C = ()> {
    graph: CompiledGraph<JsonState, C>,
    schema: JsonStateSchema,
    types: PhantomData<fn(I) -> O>,
}

impl<I: Serialize, O: DeserializeOwned, C: Send + Sync + 'static> CompiledEntrypoint<I, O, C> {
    /// Runs the function once, without a thread, and returns its output.
    pub async fn invoke(&self, input: I, deps: C) -> Result<O, RunError> {
        decode_output(&self.graph.invoke(encode_input(&self.schema, input)?, deps).await?)
    }

    /// Returns a handle to the named thread, which stores the saved value between runs.
    pub fn thread(&self, name: impl Into<String>, deps: C) -> EntrypointThread<I, O, C> {
        EntrypointThread {
            thread: self.graph.thread(name, deps),
            schema: self.schema.clone(),
            types: PhantomData,
        }
    }

    /// Returns the underlying graph, for drawings and streams.
    pub fn graph(&self) -> &CompiledGraph<JsonState, C> {
        &self.graph
    }
}

impl<I, O, C> fmt::Debug for CompiledEntrypoint<I, O, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledEntrypoint").field("graph", &self.graph).finish_non_exhaustive()
    }
}

/// A handle to a thread on which an entrypoint runs.
///
/// ```
/// use graph_core::{Context, Entrypoint, MemorySaver};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let total = Entrypoint::new("total", |add: u64, last: Option<u64>, _: Context| async move {
///     Ok(last.unwrap_or(0) + add)
/// })
/// .checkpointer(MemorySaver::new())
/// .compile()?;
/// let thread = total.thread("ada", ());
/// assert_eq!(thread.run(1).await?.done(), Some(1));
/// thread.save(10).await?;
/// assert_eq!(thread.run(2).await?.done(), Some(12));
/// assert_eq!(thread.saved::<u64>().await?, Some(12));
/// # Ok(()) }
/// ```
pub struct EntrypointThread<I, O, C = ()> {
    thread: Thread<JsonState, C>,
    schema: JsonStateSchema,
    types: PhantomData<fn(I) -> O>,
}

impl<I: Serialize, O: DeserializeOwned, C: Send + Sync + 'static> EntrypointThread<I, O, C> {
    /// Sets the options for runs on this thread.
    #[must_use]
    pub fn with_options(self, options: RunOptions) -> Self {
        Self { thread: self.thread.with_options(options), ..self }
    }

    /// Returns the underlying thread, for its state, its history and its other checkpoints.
    pub fn thread(&self) -> &Thread<JsonState, C> {
        &self.thread
    }

    /// Returns the value that the last run saved, or `None` if no run has completed.
    pub async fn saved<P: DeserializeOwned>(&self) -> Result<Option<P>, RunError> {
        let Some(state) = self.thread.state().await? else { return Ok(None) };
        let Some(value) = state.values.get(SAVED).cloned() else { return Ok(None) };
        serde_json::from_value(value).map(Some).map_err(|it| FieldError::new(SAVED, it).into())
    }

    /// Replaces the saved value, which the next run receives.
    pub async fn save(&self, value: impl Serialize) -> Result<(), RunError> {
        let value = serde_json::to_value(value).map_err(|it| FieldError::encode(SAVED, &it))?;
        let fields = [(SAVED.to_owned(), value)].into_iter().collect();
        let update = self.thread.graph().update_from_json(fields)?;
        self.thread.update_state(update, AsNode::node(NODE)).await?;
        Ok(())
    }

    /// Runs the function on this thread and streams its events.
    pub fn stream(&self, input: I) -> Result<RunStream<JsonState>, RunError> {
        Ok(self.thread.stream(encode_input(&self.schema, input)?))
    }

    /// Runs the function on this thread.
    pub async fn run(&self, input: I) -> Result<EntrypointOutcome<O>, RunError> {
        EntrypointOutcome::new(self.thread.run(encode_input(&self.schema, input)?).await?)
    }

    /// Resumes the thread after a failure. Journaled calls are not repeated.
    pub async fn proceed(&self) -> Result<EntrypointOutcome<O>, RunError> {
        EntrypointOutcome::new(self.thread.proceed().await?)
    }

    /// Resumes the thread after an interrupt. `value` becomes the result of [`Context::interrupt`].
    pub async fn resume(&self, value: impl Serialize) -> Result<EntrypointOutcome<O>, RunError> {
        EntrypointOutcome::new(self.thread.resume(value).await?)
    }
}

impl<I, O, C> fmt::Debug for EntrypointThread<I, O, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntrypointThread").field("thread", &self.thread).finish_non_exhaustive()
    }
}

/// The outcome of running an entrypoint.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub enum EntrypointOutcome<O> {
    /// The function returned its output.
    Done(O),
    /// The function interrupted the run.
    Interrupted(Vec<Interrupt>),
    /// The run was drained before the function started.
    Stopped(StopReason),
}

impl<O: DeserializeOwned> EntrypointOutcome<O> {
    fn new(outcome: RunOutcome<JsonState>) -> Result<Self, RunError> {
        match outcome {
            RunOutcome::Done(state) => decode_output(&state).map(Self::Done),
            RunOutcome::Interrupted { interrupts, .. } => Ok(Self::Interrupted(interrupts)),
            RunOutcome::Stopped { reason, .. } => Ok(Self::Stopped(reason)),
        }
    }
}

impl<O> EntrypointOutcome<O> {
    /// Returns the output, or `None` if the run was interrupted or stopped.
    pub fn done(self) -> Option<O> {
        match self {
            Self::Done(output) => Some(output),
            _ => None,
        }
    }
}

fn encode_input<I: Serialize>(
    schema: &JsonStateSchema,
    input: I,
) -> Result<Input<JsonState>, RunError> {
    let value = serde_json::to_value(input).map_err(|error| FieldError::encode(INPUT, &error))?;
    Ok(schema.input(Value::from_iter([(INPUT, value)]))?)
}

fn decode_output<O: DeserializeOwned>(state: &JsonState) -> Result<O, RunError> {
    let value = state.get(OUTPUT).cloned().unwrap_or_default();
    serde_json::from_value(value).map_err(|error| FieldError::new(OUTPUT, error).into())
}
