//! LangGraph's API for jobs, so that LangGraph's clients can submit and follow them. Its routes are below `/langgraph`.

use std::{error::Error, sync::Arc};

use async_trait::async_trait;
use graph_server::{
    RunInfo,
    http::Problem,
    langgraph::{Graphs, LangGraphApi, Schemas, ServiceRuns, service_graph},
};
use graph_store::{Sqlite, SqliteSaver, SqliteStore};
use serde_json::{Map, Value, json};

use super::{app_state::AppState, wire::ExecuteRequest};
use crate::graph::GRAPH;

/// Presents the jobs as runs of a graph.
struct Jobs(AppState);

#[async_trait]
impl ServiceRuns for Jobs {
    async fn start(&self, input: Map<String, Value>) -> Result<RunInfo, Problem> {
        let request: ExecuteRequest = serde_json::from_value(Value::Object(input))
            .map_err(|error| Problem::invalid(error.to_string()))?;
        self.0.start_job(request).await
    }
}

/// Opens the API. Its databases are in the jobs directory.
pub(super) async fn open(state: &AppState) -> Result<LangGraphApi, Box<dyn Error + Send + Sync>> {
    let properties = json!({
        "task": { "type": "string", "title": "Task" },
        "tests": { "type": "string", "title": "Assertions about the program" },
        "expect": { "type": "string", "title": "Expected output" },
        "max_attempts": { "type": "integer", "minimum": 1, "maximum": 10, "title": "Attempts" },
        "timeout": { "type": "number", "title": "Time limit of an execution in seconds" },
        "memory": { "type": "integer", "title": "Memory limit in MiB" },
        "max_tokens": { "type": "integer", "minimum": 1, "title": "Token limit" },
        "max_dollars": { "type": "number", "title": "Cost limit in dollars" },
    });
    let fields = properties.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    let fields: Vec<_> = fields.collect();
    let graph = service_graph(&state.service, &fields, Jobs(state.clone()))?;
    let schema = json!({ "type": "object", "required": ["task"], "properties": properties });
    let dir = &state.sessions.runs;
    let database = Sqlite::open(dir.join("threads.db"))?;
    let saver = Arc::new(SqliteSaver::new(&database));
    let store = Arc::new(SqliteStore::new(&database));
    let graphs = Graphs::new(saver, store).add(GRAPH, graph, Schemas::of_state(schema))?;
    Ok(LangGraphApi::open(graphs, dir.join("langgraph.db")).await?)
}
