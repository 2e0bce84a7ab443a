//! LangGraph's API for the pipeline, so that LangGraph's clients can start and follow runs. Its routes are below
//! `/langgraph`.

use std::{error::Error, path::Path, sync::Arc};

use graph_server::{
    http::Problem,
    langgraph::{Graphs, LangGraphApi, Schemas, service_graph},
};
use graph_store::{Sqlite, SqliteSaver, SqliteStore};
use serde_json::{Map, Value, json};

use super::{app_state::AppState, wire::AnalyzeRequest};
use crate::pipeline::GRAPH;

/// Opens the API. Its databases are in the directory of all runs.
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
        "max_tokens": { "type": "integer", "minimum": 1, "title": "Token limit" },
        "max_dollars": { "type": "number", "title": "Cost limit in dollars" },
    });
    let fields = properties.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    let fields: Vec<_> = fields.collect();
    let starter = app.clone();
    let graph = service_graph(&app.service, &fields, move |input| {
        let app = starter.clone();
        async move {
            let request: AnalyzeRequest = serde_json::from_value(Value::Object(input))
                .map_err(|error| Problem::invalid(error.to_string()))?;
            app.start_run(request).await
        }
    })?;
    let schema = json!({ "type": "object", "required": ["ticker"], "properties": properties });
    let database = Sqlite::open(runs_dir.join("threads.db"))?;
    let saver = Arc::new(SqliteSaver::new(&database));
    let store = Arc::new(SqliteStore::new(&database));
    let graphs = Graphs::new(saver, store).add(GRAPH, graph, Schemas::of_state(schema))?;
    Ok(LangGraphApi::open(graphs, runs_dir.join("langgraph.db")).await?)
}
