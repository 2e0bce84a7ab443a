//! Graphs whose only node executes a run of a service.

mod followed_run;

use std::sync::Arc;

use async_trait::async_trait;
use graph_core::{
    Context, JsonFieldKind, JsonState, JsonStateSchema, NodeError, START, StateGraph, json_node,
    state::FieldError,
};
use serde_json::{Map, Value, json};

use self::followed_run::FollowedRun;
use crate::{
    http::Problem,
    run::{RunInfo, Status},
    service::Service,
};

/// Fields of the state that describe the run of the service.
const OUTPUT: [&str; 3] = ["run_id", "status", "outcome"];

/// Starts the runs of a [`Service`] for the graph of [`service_graph`], and converts the questions and answers of these
/// runs.
#[async_trait]
pub trait ServiceRuns: Send + Sync + 'static {
    /// Starts a run with the fields of the input that a client has set.
    async fn start(&self, input: Map<String, Value>) -> Result<RunInfo, Problem>;

    /// Describes the answer that a run waits for. Clients receive it as the value of an interrupt.
    async fn question(&self, run: &RunInfo) -> Result<Value, Problem> {
        Ok(json!({ "run_id": run.id, "subject": run.subject }))
    }

    /// Checks the answer of a client, and returns the arguments with which the run is [resumed](Service::resume). If it
    /// fails, the client can send another answer.
    fn answer(&self, answer: Value) -> Result<Value, Problem> {
        Ok(answer)
    }
}

/// Creates a graph whose only node, `run`, executes a run of `service`. With it, LangGraph's clients can use an
/// application that has its own [`Runner`](crate::Runner).
///
/// `input` names the fields of a run's input, and `runs` starts a run with the fields that a client has set. The output
/// also contains the `run_id`, the `status` and the `outcome` of the run; the events of the run are custom events of
/// the graph. If a client cancels its run, the run of the service is cancelled, and it continues when the client
/// resumes.
///
/// A run of the service that waits for an answer interrupts the graph. The value of the interrupt is the
/// [question](ServiceRuns::question), and `Command(resume=answer)` resumes the run of the service with the
/// [answer](ServiceRuns::answer).
///
/// ```
/// # use std::{io, sync::Arc};
/// # use axum::{body::Body, http::Request};
/// # use graph_server::{Capacity, EventSender, Registry, RunEvent, Runner, RunnerError, RunnerOutcome};
/// # use tower::ServiceExt;
/// use async_trait::async_trait;
/// use graph_server::{
///     NewRun, RunInfo, Service,
///     http::Problem,
///     langgraph::{Graphs, LangGraphApi, Schemas, ServiceRuns, service_graph},
/// };
/// use serde_json::{Map, Value, json};
///
/// /// Starts the runs of a service that doubles numbers.
/// struct Doublings(Service);
///
/// #[async_trait]
/// impl ServiceRuns for Doublings {
///     async fn start(&self, input: Map<String, Value>) -> Result<RunInfo, Problem> {
///         let (id, subject) = ("double-1".to_owned(), "doubler".to_owned());
///         Ok(self.0.start(NewRun { id, subject, input: Value::Object(input) }).await?)
///     }
/// }
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
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runner = Arc::new(Doubler);
/// let service = Service::open(Registry::in_memory()?, runner, Capacity::default()).await?;
/// let graph = service_graph(&service, &["number"], Doublings(service.clone()))?;
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
/// # Ok(()) }
/// ```
pub fn service_graph(
    service: &Service,
    input: &[&str],
    runs: impl ServiceRuns,
) -> Result<StateGraph<JsonState>, FieldError> {
    let fields = input.iter().chain(&OUTPUT).map(|&it| (it, JsonFieldKind::Last));
    let schema = JsonStateSchema::new(fields)?.with_input(input)?;
    let service = service.clone();
    let runs: Arc<dyn ServiceRuns> = Arc::new(runs);
    let input: Vec<String> = input.iter().map(|&it| it.to_owned()).collect();
    let run = json_node("run", move |state, cx| {
        let values = input.iter().filter_map(|it| Some((it.clone(), state.get(it)?.clone())));
        let values: Map<String, Value> = values.filter(|(_, value)| !value.is_null()).collect();
        execute(service.clone(), runs.clone(), values, cx)
    });
    Ok(schema.graph().node(run).edge(START, "run"))
}

/// Starts a run of the service, or continues the one that an earlier execution of the node has started. Each part of
/// the work is journaled, so that an execution after an interrupt continues with the answer.
async fn execute(
    service: Service,
    runs: Arc<dyn ServiceRuns>,
    input: Map<String, Value>,
    cx: Context,
) -> Result<Value, NodeError> {
    let rejected = |problem: Problem| NodeError::terminal(problem.into_parts().1);
    // Whether this execution has started or resumed the run.
    let mut resumed = false;
    let start = async {
        resumed = true;
        Ok::<String, NodeError>(runs.start(input).await.map_err(rejected)?.id)
    };
    let id = cx.task("start", (), start).await?;
    let mut run = FollowedRun::new(&service, id.clone());
    let mut last = 0;
    let status = loop {
        let (status, seq) = cx.task("follow", (), run.follow(last, resumed, &cx)).await?;
        last = seq;
        if status != Status::Waiting {
            break status;
        }
        let question = async {
            let waiting = service.get(&id).await?;
            runs.question(&waiting).await.map_err(rejected)
        };
        let question = cx.task("question", (), question).await?;
        let check = |answer: Value| runs.answer(answer).map_err(rejected);
        let args = cx.interrupt_checked(question, check)?;
        let answer = async {
            resumed = run.answer(args).await?;
            Ok::<(), NodeError>(())
        };
        cx.task("answer", (), answer).await?;
    };
    let outcome = service.get(&id).await?.outcome;
    Ok(json!({ "run_id": id, "status": status, "outcome": outcome }))
}
