//! LangGraph's API for the pipeline, so that LangGraph's clients can start and follow runs. Its routes are below
//! `/langgraph`.

use std::{error::Error, path::Path, sync::Arc};

use app_support::server::blocking;
use async_trait::async_trait;
use graph_server::{
    RunInfo,
    http::Problem,
    langgraph::{Graphs, LangGraphApi, Schemas, ServiceRuns, service_graph},
};
use graph_store::{Sqlite, SqliteSaver, SqliteStore};
use serde_json::{Map, Value, json};

use super::{
    app_state::AppState,
    results,
    runner::read_moves,
    wire::{AnalyzeRequest, Budget, ResumeOrder, ResumeRequest},
};
use crate::pipeline::GRAPH;

/// The runs of the pipeline, as runs of a graph. A run with a review interrupts the graph with the moves to review, and
/// is resumed with the reviewed moves: `{"moves": [...]}`, as in a request to `/api/runs/{id}/resume`.
struct PipelineRuns(AppState);

#[async_trait]
impl ServiceRuns for PipelineRuns {
    async fn start(&self, input: Map<String, Value>) -> Result<RunInfo, Problem> {
        let request: AnalyzeRequest = serde_json::from_value(Value::Object(input))
            .map_err(|error| Problem::invalid(error.to_string()))?;
        self.0.start_run(request).await
    }

    async fn question(&self, run: &RunInfo) -> Result<Value, Problem> {
        let (id, dir) = (run.id.clone(), self.0.options.run_dir(&run.id));
        let review = blocking(move || results::review(&dir)).await?;
        Ok(json!({ "run_id": id, "moves": review.moves }))
    }

    fn answer(&self, answer: Value) -> Result<Value, Problem> {
        let request: ResumeRequest =
            serde_json::from_value(answer).map_err(|error| Problem::invalid(error.to_string()))?;
        let Some(moves) = request.moves else {
            let problem = "the run is waiting for a review; resume it with the reviewed `moves`";
            return Err(Problem::invalid(problem));
        };
        read_moves(moves.clone()).map_err(Problem::invalid)?;
        let limit = Budget { max_tokens: request.max_tokens, max_dollars: request.max_dollars };
        if limit != Budget::default() {
            self.0.bounded_budget(limit)?;
        }
        Ok(json!(ResumeOrder { moves: Some(moves), limit }))
    }
}

/// Opens the API. Its databases are in the runs directory.
pub(super) async fn open(
    app: &AppState,
    runs_dir: &Path,
) -> Result<LangGraphApi, Box<dyn Error + Send + Sync>> {
    let properties = json!({
        "ticker": { "type": "string", "title": "Ticker", "examples": ["NVDA"] },
        "rounds": { "type": "integer", "minimum": 1, "title": "Rounds per debate" },
        "seed": { "type": "integer", "minimum": 0, "title": "Seed of the scripted model" },
        "concurrency": { "type": "integer", "minimum": 1, "title": "Concurrent debates" },
        "baseline": { "type": "boolean", "title": "Score the moves before the debates too" },
        "review": { "type": "boolean", "title": "Review the moves before the debates" },
        "max_tokens": { "type": "integer", "minimum": 1, "title": "Token limit" },
        "max_dollars": { "type": "number", "title": "Cost limit in dollars" },
    });
    let fields = properties.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    let fields: Vec<_> = fields.collect();
    let graph = service_graph(&app.service, &fields, PipelineRuns(app.clone()))?;
    let schema = json!({ "type": "object", "required": ["ticker"], "properties": properties });
    let database = Sqlite::open(runs_dir.join("threads.db"))?;
    let saver = Arc::new(SqliteSaver::new(&database));
    let store = Arc::new(SqliteStore::new(&database));
    let graphs = Graphs::new(saver, store).add(GRAPH, graph, Schemas::of_state(schema))?;
    Ok(LangGraphApi::open(graphs, runs_dir.join("langgraph.db")).await?)
}
