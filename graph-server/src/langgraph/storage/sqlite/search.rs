//! Searches for documents in SQLite.

use std::error::Error;

use rusqlite::{Connection, functions::FunctionFlags, params_from_iter, types};
use serde_json::{Map, Value, json};

use crate::langgraph::{
    json_filter::contains_all,
    storage::{Filter, Found, Search},
};

/// The numbers of the documents that meet the conditions of a search, with the value by which they are sorted.
const FOUND: &str = "
SELECT number, data ->> ?9 AS sort_value
FROM documents
WHERE kind = ?1 AND (?2 IS NULL OR owner = ?2 OR (?3 AND owner IS NULL))
    AND (?12 IS NULL OR parent = ?12)
    AND (?4 IS NULL OR id IN (SELECT value FROM json_each(?4)))
    AND (?5 IS NULL OR data ->> '$.status' = ?5)
    AND (?13 IS NULL OR json_contains(data, ?13))
    AND (?14 IS NULL OR json_text_contains(data -> '$.name', ?14))
    AND (?6 IS NULL OR json_contains(data -> '$.metadata', ?6))
    AND (?15 IS NULL OR json_contains(data -> '$.metadata', ?15))
    AND (?7 IS NULL OR json_contains(data -> '$.values', ?7))
    AND NOT EXISTS (SELECT 1 FROM json_each(?8) AS excluded WHERE json_contains(data -> '$.metadata', excluded.value))";

/// A search for documents, like [`Documents::search`](crate::langgraph::storage::Documents::search).
pub(super) struct SearchStatement {
    sql: String,
    params: [types::Value; 15],
}

impl SearchStatement {
    pub(super) fn new(kind: &str, search: &Search<'_>, filter: Filter<'_>) -> Self {
        let order = if search.descending { "DESC NULLS FIRST" } else { "ASC NULLS LAST" };
        let content = if search.ids_only { "id" } else { "data" };
        // Without a document on the page, the only row contains the total.
        let sql = format!(
            "WITH found AS MATERIALIZED ({FOUND}), page AS (
                SELECT number, sort_value FROM found ORDER BY sort_value {order}, number {order} LIMIT ?10 OFFSET ?11
            )
            SELECT counted.total, documents.{content}
            FROM (SELECT COUNT(*) AS total FROM found) AS counted
            LEFT JOIN page ON TRUE
            LEFT JOIN documents ON documents.number = page.number
            ORDER BY page.sort_value {order}, page.number {order}"
        );
        let params: [types::Value; 15] = [
            kind.to_owned().into(),
            filter.owner.map(str::to_owned).into(),
            filter.shared.into(),
            search.ids.map(|it| json!(it).to_string()).into(),
            search.status.map(str::to_owned).into(),
            search.metadata.map(|it| json!(it).to_string()).into(),
            search.values.map(|it| json!(it).to_string()).into(),
            json!(search.excluded).to_string().into(),
            search.sort_by.to_owned().into(),
            i64::try_from(search.limit).unwrap_or(i64::MAX).into(),
            i64::try_from(search.offset).unwrap_or(i64::MAX).into(),
            search.parent.map(str::to_owned).into(),
            search.fields.map(|it| json!(it).to_string()).into(),
            search.name.map(str::to_owned).into(),
            filter.metadata.map(|it| json!(it).to_string()).into(),
        ];
        Self { sql, params }
    }

    pub(super) fn run(&self, connection: &Connection) -> rusqlite::Result<Found> {
        let mut statement = connection.prepare_cached(&self.sql)?;
        let mut rows = statement.query(params_from_iter(&self.params))?;
        let mut found = Found { documents: Vec::new(), total: 0 };
        while let Some(row) = rows.next()? {
            found.total = row.get(0)?;
            found.documents.extend(row.get::<_, Option<String>>(1)?);
        }
        Ok(found)
    }
}

/// Adds the SQL functions that searches use.
pub(super) fn add_functions(connection: &Connection) -> rusqlite::Result<()> {
    add_json_contains(connection)?;
    add_json_text_contains(connection)
}

fn flags() -> FunctionFlags {
    FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC
}

/// Adds the SQL function `json_contains(object, filter)`: whether a JSON object contains all entries of another one.
fn add_json_contains(connection: &Connection) -> rusqlite::Result<()> {
    connection.create_scalar_function("json_contains", 2, flags(), |context| {
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

/// Adds the SQL function `json_text_contains(string, part)`: whether a JSON string contains a text, ignoring case.
fn add_json_text_contains(connection: &Connection) -> rusqlite::Result<()> {
    connection.create_scalar_function("json_text_contains", 2, flags(), |context| {
        let part = context.get_or_create_aux(1, |part| {
            Ok::<_, Box<dyn Error + Send + Sync>>(part.as_str()?.to_lowercase())
        })?;
        let string = context.get::<Option<String>>(0)?;
        let string = string.and_then(|it| serde_json::from_str::<String>(&it).ok());
        Ok(string.is_some_and(|it| it.to_lowercase().contains(part.as_str())))
    })
}
