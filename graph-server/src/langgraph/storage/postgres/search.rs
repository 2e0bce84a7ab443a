//! Searches for documents in PostgreSQL.

use serde_json::{Map, Value, json};
use tokio_postgres::types::ToSql;

use super::connection::PostgresStorage;
use crate::langgraph::{
    error::ApiResult,
    storage::{Filter, Found, Search},
};

/// The documents that meet the conditions of a search.
///
/// `@>` compares lists as sets, so the lists of a filter are compared separately. `jsonb` cannot contain the character
/// U+0000, so it is replaced.
const FOUND: &str = r"
FROM (
    SELECT number, data, replace(data, '\u0000', '\ufffd')::jsonb AS document
    FROM graph_server.document
    WHERE kind = $1 AND ($2::text IS NULL OR owner = $2 OR $3 AND owner IS NULL)
        AND ($4::text[] IS NULL OR id = ANY ($4))
    OFFSET 0
) AS visible
WHERE ($5::text IS NULL OR document ->> 'status' = $5)
    AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(replace($6::text, '\u0000', '\ufffd')::jsonb) AS condition
        WHERE (condition ->> 'wanted')::boolean <> (
            coalesce(document -> (condition ->> 'field') @> (condition -> 'entries'), false)
            AND NOT EXISTS (
                SELECT FROM jsonb_array_elements(condition -> 'lists') AS list
                WHERE document #> ARRAY(SELECT jsonb_array_elements_text(list -> 'path')) <> list -> 'value'
            )
        )
    )";

/// Searches for documents, like [`Documents::search`](crate::langgraph::storage::Documents::search).
pub(super) async fn search(
    storage: &PostgresStorage,
    kind: &str,
    search: &Search<'_>,
    filter: Filter<'_>,
) -> ApiResult<Found> {
    let conditions = conditions(search).to_string();
    let mut params: Vec<&(dyn ToSql + Sync)> =
        vec![&kind, &filter.owner, &filter.shared, &search.ids, &search.status, &conditions];
    let counted = storage.query(&format!("SELECT count(*) {FOUND}"), &params).await?;
    let total: i64 = counted.first().map(|it| it.try_get(0)).transpose()?.unwrap_or_default();
    let total = usize::try_from(total).unwrap_or_default();
    if search.limit == 0 || search.offset >= total {
        return Ok(Found { documents: Vec::new(), total });
    }
    let order = if search.descending { "DESC" } else { "ASC" };
    let select = format!(
        r#"SELECT data {FOUND} ORDER BY (document ->> $7::text) COLLATE "C" {order}, number {order} LIMIT $8 OFFSET $9"#
    );
    let limit = i64::try_from(search.limit).unwrap_or(i64::MAX);
    let offset = i64::try_from(search.offset).unwrap_or(i64::MAX);
    params.extend([&search.sort_by as &(dyn ToSql + Sync), &limit, &offset]);
    let rows = storage.query(&select, &params).await?;
    let documents = rows.iter().map(|it| Ok(it.try_get(0)?)).collect::<ApiResult<_>>()?;
    Ok(Found { documents, total })
}

/// Returns the conditions on the fields `metadata` and `values` of a document.
fn conditions(search: &Search<'_>) -> Value {
    let metadata = search.metadata.map(|it| condition("metadata", it, true));
    let values = search.values.map(|it| condition("values", it, true));
    let excluded = search.excluded.iter().map(|it| condition("metadata", it, false));
    metadata.into_iter().chain(values).chain(excluded).collect()
}

/// Returns the condition that a field contains all entries of `filter`, or that it does not.
fn condition(field: &str, filter: &Map<String, Value>, wanted: bool) -> Value {
    let mut lists = Vec::new();
    add_lists(filter, &[field], &mut lists);
    json!({ "field": field, "entries": filter, "lists": lists, "wanted": wanted })
}

/// Adds the lists inside a filter and the objects in it, with their paths in the document.
fn add_lists(filter: &Map<String, Value>, path: &[&str], lists: &mut Vec<Value>) {
    for (key, value) in filter {
        let path = [path, &[key.as_str()]].concat();
        match value {
            Value::Array(_) => lists.push(json!({ "path": path, "value": value })),
            Value::Object(entries) => add_lists(entries, &path, lists),
            _ => {}
        }
    }
}
