//! Graphs whose only node executes a run of a service.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use graph_core::{
    Context, JsonFieldKind, JsonState, JsonStateSchema, NodeError, START, StateGraph, json_node,
    state::FieldError,
};
use serde_json::{Map, Value, json};

use crate::{
    http::Problem,
    run::{RunInfo, Status},
    service::{ReadOutcome, Service},
};

/// Fields of the state that describe the run of the service.
const OUTPUT: [&str; 3] = ["run_id", "status", "outcome"];

/// Creates a graph whose only node, `run`, executes a run of `service`. With it, LangGraph's clients can use an
/// application that has its own [`Runner`](crate::Runner).
///
/// `input` names the fields of a run's input, and `start` starts a run with the fields that a client has set. The output
/// also contains the `run_id`, the `status` and the `outcome` of the run; the events of the run are custom events of the
/// graph. If a client cancels its run, the run of the service is cancelled, and it continues when the client resumes.
/// A run of the service that waits for an answer ends the graph with the status `waiting`.
///
/// ```
/// # use std::{io, sync::Arc};
/// # use async_trait::async_trait;
/// # use axum::{body::Body, http::Request};
/// # use graph_server::{Capacity, EventSender, Registry, RunEvent, RunInfo, Runner, RunnerError, RunnerOutcome};
/// # use tower::ServiceExt;
/// use graph_server::{
///     NewRun, Service,
///     langgraph::{Graphs, LangGraphApi, Schemas, service_graph},
/// };
/// use serde_json::{Value, json};
///
/// # struct Doubler;
/// # #[async_trait]
/// # impl Runner for Doubler {
/// #     async fn execute(&self, run: &RunInfo, _: &EventSender) -> Result<RunnerOutcome, RunnerError> {
/// #         let number = run.input["number"].as_i64().ok_or_else(|| RunnerError("no number".to_owned()))?;
/// #         Ok(RunnerOutcome::Complete(json!(2 * number)))
/// #     }
/// #     fn events(&self, _: &str, _: u64, _: usize) -> io::Result<Vec<RunEvent>> {
/// #         Ok(Vec::new())
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runner = Arc::new(Doubler);
/// let service = Service::open(Registry::in_memory()?, runner, Capacity::default()).await?;
/// let starter = service.clone();
/// let graph = service_graph(&service, &["number"], move |input| {
///     let starter = starter.clone();
///     async move {
///         let (id, subject) = ("double-1".to_owned(), "doubler".to_owned());
///         Ok(starter.start(NewRun { id, subject, input: Value::Object(input) }).await?)
///     }
/// })?;
/// let graphs = Graphs::in_memory().add("double", graph, Schemas::default())?;
/// let api = LangGraphApi::open(graphs, ":memory:").await?;
/// # let body = json!({ "assistant_id": "double", "input": { "number": 21 } }).to_string();
/// # let request = Request::post("/runs/wait").header("content-type", "application/json");
/// # let response = api.routes().oneshot(request.body(Body::from(body))?).await?;
/// # let output: Value = serde_json::from_slice(&axum::body::to_bytes(response.into_body(), 10_000).await?)?;
/// // `client.runs.wait(None, "double", input={"number": 21})` returns:
/// assert_eq!(output, json!({
///     "number": 21, "run_id": "double-1", "status": "complete", "outcome": 42,
/// }));
/// # api.shut_down().await;
/// # Ok(())
/// # }
/// ```
pub fn service_graph<F, Fut>(
    service: &Service,
    input: &[&str],
    start: F,
) -> Result<StateGraph<JsonState>, FieldError>
where
    F: Fn(Map<String, Value>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<RunInfo, Problem>> + Send + 'static,
{
    let fields = input.iter().chain(&OUTPUT).map(|&it| (it, JsonFieldKind::Last));
    let schema = JsonStateSchema::new(fields)?.with_input(input)?;
    let (service, start) = (service.clone(), Arc::new(start));
    let input: Vec<String> = input.iter().map(|&it| it.to_owned()).collect();
    let run = json_node("run", move |state, cx| {
        let values = input.iter().filter_map(|it| Some((it.clone(), state.get(it)?.clone())));
        let values: Map<String, Value> = values.filter(|(_, value)| !value.is_null()).collect();
        execute(service.clone(), start.clone(), values, cx)
    });
    Ok(schema.graph().node(run).edge(START, "run"))
}

/// Starts a run of the service, or continues the one that an earlier execution of the node has started.
async fn execute<F, Fut>(
    service: Service,
    start: Arc<F>,
    input: Map<String, Value>,
    cx: Context,
) -> Result<Value, NodeError>
where
    F: Fn(Map<String, Value>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<RunInfo, Problem>> + Send + 'static,
{
    let is_new = AtomicBool::new(false);
    let starting = async {
        is_new.store(true, Ordering::Relaxed);
        let refused = |problem: Problem| NodeError::terminal(problem.into_parts().1);
        Ok::<String, NodeError>(start(input).await.map_err(refused)?.id)
    };
    let id: String = cx.task("start", (), starting).await?;
    let mut canceller = CancelOnDrop { service: service.clone(), run: Some(id.clone()) };
    let has_stopped = matches!(service.get(&id).await?.status, Status::Cancelled | Status::Error);
    if has_stopped && !is_new.load(Ordering::Relaxed) {
        service.resume(&id, Value::Null).await?;
    }
    let mut reader = service.read_events(&id, 0).await?;
    let status = loop {
        match reader.next().await? {
            ReadOutcome::Events(events) => {
                for event in events {
                    cx.emit(serde_json::from_str::<Value>(&event.data)?).await;
                }
            }
            ReadOutcome::End(status) => break status,
            ReadOutcome::ShuttingDown => {
                // The next server continues the run, and executes this node again.
                canceller.run = None;
                std::future::pending::<()>().await;
            }
        }
    };
    canceller.run = None;
    let run = service.get(&id).await?;
    match status {
        Status::Error => {
            let error = run.error.unwrap_or_else(|| format!("run `{id}` failed"));
            Err(NodeError::terminal(error))
        }
        Status::Cancelled => Err(NodeError::terminal(format!("run `{id}` was cancelled"))),
        _ => Ok(json!({ "run_id": id, "status": status, "outcome": run.outcome })),
    }
}

/// Cancels a run of the service when the node is cancelled or fails.
struct CancelOnDrop {
    service: Service,
    run: Option<String>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        let service = self.service.clone();
        tokio::spawn(async move {
            if let Err(error) = service.cancel(&run).await {
                tracing::warn!(run, %error, "cannot cancel a run");
            }
        });
    }
}
