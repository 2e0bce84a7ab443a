//! Searches for documents in PostgreSQL.

use serde_json::{Value, json};
use tokio_postgres::types::ToSql;

use super::{
    connection::PostgresStorage,
    filter::{condition, conditions_hold, equal, without_nul},
};
use crate::langgraph::{
    error::ApiResult,
    storage::{Filter, Found, Search},
};

/// Returns a query for the ids of the documents that meet the conditions of a search, with the value by which they
/// are sorted.
fn found() -> String {
    let (data, name) = (without_nul("data"), without_nul("$10::text"));
    let conditions = conditions_hold("document", "$6::text");
    format!(
        r#"
SELECT number, id, (document ->> $7::text) COLLATE "C" AS sort_value
FROM (
    SELECT number, id, {data}::json AS document
    FROM graph_server.document
    WHERE kind = $1 AND ($2::text IS NULL OR owner = $2 OR $3 AND owner IS NULL)
        AND ($4::text[] IS NULL OR id = ANY ($4)) AND ($11::text IS NULL OR parent = $11)
    OFFSET 0
) AS visible
WHERE ($5::text IS NULL OR document ->> 'status' = $5)
    AND ($10::text IS NULL OR strpos(lower(document ->> 'name'), lower({name}::jsonb #>> '{{}}')) > 0)
    AND {conditions}"#
    )
}

/// Searches for documents, like [`Documents::search`](crate::langgraph::storage::Documents::search).
pub(super) async fn search(
    storage: &PostgresStorage,
    kind: &str,
    search: &Search<'_>,
    filter: Filter<'_>,
) -> ApiResult<Found> {
    let conditions = conditions(search, filter).to_string();
    // Passed as JSON, because a text parameter cannot contain U+0000.
    let name = search.name.map(|it| json!(it).to_string());
    let limit = i64::try_from(search.limit).unwrap_or(i64::MAX);
    let offset = i64::try_from(search.offset).unwrap_or(i64::MAX);
    let params: [&(dyn ToSql + Sync); 11] = [
        &kind, &filter.owner, &filter.shared, &search.ids, &search.status, &conditions,
        &search.sort_by, &limit, &offset, &name, &search.parent,
    ];
    let found = found();
    let order = if search.descending { "DESC" } else { "ASC" };
    let content = if search.ids_only { "id" } else { "data" };
    // Without a document on the page, the only row contains the total.
    let select = format!(
        "WITH found AS MATERIALIZED ({found}), page AS (
            SELECT number, id, sort_value FROM found ORDER BY sort_value {order}, number {order} LIMIT $8 OFFSET $9
        )
        SELECT counted.total, document.{content}
        FROM (SELECT count(*) AS total FROM found) AS counted
        LEFT JOIN page ON TRUE
        LEFT JOIN graph_server.document ON document.kind = $1 AND document.id = page.id
        ORDER BY page.sort_value {order}, page.number {order}"
    );
    let rows = storage.query(&select, &params).await?;
    let total: i64 = rows.first().map(|it| it.try_get(0)).transpose()?.unwrap_or_default();
    let mut documents = Vec::new();
    for row in &rows {
        documents.extend(row.try_get::<_, Option<String>>(1)?);
    }
    Ok(Found { documents, total: usize::try_from(total).unwrap_or_default() })
}

/// Returns the conditions on the fields of a document.
fn conditions(search: &Search<'_>, filter: Filter<'_>) -> Value {
    let fields = search.fields.into_iter().flatten().map(|(field, value)| equal(field, value));
    let metadata = [search.metadata, filter.metadata].into_iter().flatten();
    let metadata = metadata.map(|it| condition("metadata", it, true));
    let values = search.values.map(|it| condition("values", it, true));
    let excluded = search.excluded.iter().map(|it| condition("metadata", it, false));
    fields.chain(metadata).chain(values).chain(excluded).collect()
}
