//! Assistants: graphs with a configuration. The server creates one for each graph.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    database::Database,
    error::{ApiError, ApiResult},
    graphs::Graphs,
    id::system_assistant,
    records::{Assistant, AssistantVersion},
    request::config::Config,
    time::now,
};

/// Creates the system assistant of each graph that does not have one yet.
pub(super) async fn create_system_assistants(
    graphs: &Graphs,
    database: &Database,
) -> ApiResult<()> {
    for graph in graphs.names() {
        let now = now();
        let assistant = Assistant {
            assistant_id: system_assistant(graph),
            graph_id: graph.to_owned(),
            config: json!({}),
            context: json!({}),
            metadata: Map::from_iter([("created_by".to_owned(), json!("system"))]),
            name: graph.to_owned(),
            description: None,
            created_at: now.clone(),
            updated_at: now,
            version: 1,
        };
        store_new(database, &assistant).await?;
    }
    Ok(())
}

/// Stores a new assistant and its first version, unless its id is in use. Returns whether they were stored.
pub(super) async fn store_new(database: &Database, assistant: &Assistant) -> ApiResult<bool> {
    database.add(assistant, &AssistantVersion(assistant.clone())).await
}

/// Returns all versions of an assistant, newest first.
pub(super) async fn versions(database: &Database, id: Uuid) -> ApiResult<Vec<Assistant>> {
    let id = id.to_string();
    let versions = database.list::<AssistantVersion>(Some(&id)).await?;
    let mut versions: Vec<_> = versions.into_iter().map(|it| it.0).collect();
    versions.sort_by_key(|it| std::cmp::Reverse(it.version));
    Ok(versions)
}

/// Finds an assistant by its id, or the system assistant of a graph by the graph's name.
pub(super) async fn find_assistant(
    graphs: &Graphs,
    database: &Database,
    id_or_graph: &str,
) -> ApiResult<Assistant> {
    let id = match Uuid::try_parse(id_or_graph) {
        Ok(id) => id,
        Err(_) if graphs.get(id_or_graph).is_some() => system_assistant(id_or_graph),
        Err(_) => {
            let names: Vec<_> = graphs.names().collect();
            return Err(ApiError::invalid(format!(
                "`{id_or_graph}` is neither the id of an assistant nor the name of a graph; the graphs are {}",
                names.join(", ")
            )));
        }
    };
    database
        .get(&id.to_string())
        .await?
        .ok_or_else(|| ApiError::not_found(format!("assistant {id} does not exist")))
}

/// Returns the settings of an assistant, which its runs use unless they override them.
pub(super) fn settings(assistant: &Assistant) -> Map<String, Value> {
    let object = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let mut settings = object(&assistant.config["configurable"]);
    settings.extend(object(&assistant.context));
    settings
}

/// Returns the configuration of an assistant.
pub(super) fn config(assistant: &Assistant) -> Config {
    // The default is never used, because configurations are checked before they are stored.
    Config::deserialize(&assistant.config).unwrap_or_default()
}
