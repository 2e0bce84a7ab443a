//! Searches for documents in SQLite.

use std::error::Error;

use rusqlite::{Connection, functions::FunctionFlags, params};
use serde_json::{Map, Value, json};

use crate::langgraph::{
    json_filter::contains_all,
    storage::{Filter, Found, Search},
};

/// The documents that meet the conditions of a search.
const FOUND: &str = "
FROM documents
WHERE kind = ?1 AND (?2 IS NULL OR owner = ?2 OR (?3 AND owner IS NULL))
    AND (?4 IS NULL OR id IN (SELECT value FROM json_each(?4)))
    AND (?5 IS NULL OR data ->> '$.status' = ?5)
    AND (?6 IS NULL OR json_contains(data -> '$.metadata', ?6))
    AND (?7 IS NULL OR json_contains(data -> '$.values', ?7))
    AND NOT EXISTS (SELECT 1 FROM json_each(?8) AS excluded WHERE json_contains(data -> '$.metadata', excluded.value))";

/// Searches for documents, like [`Documents::search`](crate::langgraph::storage::Documents::search).
pub(super) fn search(
    connection: &Connection,
    kind: &str,
    search: &Search<'_>,
    filter: Filter<'_>,
) -> rusqlite::Result<Found> {
    let ids = search.ids.map(|it| json!(it).to_string());
    let metadata = search.metadata.map(|it| json!(it).to_string());
    let values = search.values.map(|it| json!(it).to_string());
    let excluded = json!(search.excluded).to_string();
    let conditions =
        params![kind, filter.owner, filter.shared, ids, search.status, metadata, values, excluded,];
    let mut count = connection.prepare_cached(&format!("SELECT COUNT(*) {FOUND}"))?;
    let total: usize = count.query_row(conditions, |row| row.get(0))?;
    if search.limit == 0 || search.offset >= total {
        return Ok(Found { documents: Vec::new(), total });
    }
    let order = if search.descending { "DESC" } else { "ASC" };
    let select = format!(
        "SELECT data {FOUND} ORDER BY data ->> ?9 {order}, number {order} LIMIT ?10 OFFSET ?11"
    );
    let mut select = connection.prepare_cached(&select)?;
    let page = params![search.sort_by, search.limit, search.offset];
    let page = [conditions, page].concat();
    let rows = select.query_map(page.as_slice(), |row| row.get(0))?;
    Ok(Found { documents: rows.collect::<rusqlite::Result<_>>()?, total })
}

/// Adds the SQL function `json_contains(object, filter)`: whether a JSON object contains all entries of another one.
pub(super) fn add_json_contains(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("json_contains", 2, flags, |context| {
        let filter = context.get_or_create_aux(1, |filter| {
            let filter: Map<String, Value> = serde_json::from_str(filter.as_str()?)?;
            Ok::<_, Box<dyn Error + Send + Sync>>(filter)
        })?;
        let object = context.get::<Option<String>>(0)?;
        // Null and other values that are not objects contain nothing.
        let object = object.and_then(|it| serde_json::from_str::<Map<String, Value>>(&it).ok());
        Ok(object.is_some_and(|it| contains_all(&it, &filter)))
    })
}
