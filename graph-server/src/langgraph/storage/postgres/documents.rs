//! Documents in PostgreSQL.

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use tokio_postgres::types::ToSql;

use super::{
    connection::PostgresStorage,
    filter::{included, metadata_conditions},
    search::search,
};
use crate::langgraph::{
    error::{ApiError, ApiResult},
    storage::{Documents, Filter, Found, Row, Search},
};

fn put_statement() -> String {
    let included = included("d", 7);
    format!(
        "INSERT INTO graph_server.document AS d (kind, id, parent, status, data, owner)
        VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (kind, id) DO UPDATE
        SET parent = excluded.parent, status = excluded.status, data = excluded.data
        WHERE {included}
        RETURNING 1"
    )
}

/// Stores a document in a transaction. Fails if the filter excludes the existing document.
pub(super) async fn put(
    transaction: &Transaction<'_>,
    row: &Row,
    filter: Filter<'_>,
) -> ApiResult<()> {
    let Row { kind, id, parent, status, data, owner } = row;
    let required = metadata_conditions(filter);
    let params: [&(dyn ToSql + Sync); 9] =
        [kind, id, parent, status, data, owner, &filter.owner, &filter.shared, &required];
    let put = transaction.prepare_cached(&put_statement()).await?;
    match transaction.query_opt(&put, &params).await? {
        Some(_) => Ok(()),
        None => Err(ApiError::id_in_use()),
    }
}

impl PostgresStorage {
    /// Executes a statement whose parameters are a kind, an id or a parent, and the parameters of [`included`].
    async fn query_included(
        &self,
        statement: &str,
        kind: &str,
        key: Option<&str>,
        filter: Filter<'_>,
    ) -> ApiResult<Vec<tokio_postgres::Row>> {
        let required = metadata_conditions(filter);
        self.query(statement, &[&kind, &key, &filter.owner, &filter.shared, &required]).await
    }
}

#[async_trait]
impl Documents for PostgresStorage {
    async fn put(&self, row: Row, filter: Filter<'_>) -> ApiResult<()> {
        let Row { kind, id, parent, status, data, owner } = row;
        let required = metadata_conditions(filter);
        let params: [&(dyn ToSql + Sync); 9] =
            [&kind, &id, &parent, &status, &data, &owner, &filter.owner, &filter.shared, &required];
        match self.query_opt(&put_statement(), &params).await? {
            Some(_) => Ok(()),
            None => Err(ApiError::id_in_use()),
        }
    }

    async fn add(&self, first: Row, second: Row, filter: Filter<'_>) -> ApiResult<bool> {
        let insert = "
            INSERT INTO graph_server.document (kind, id, parent, status, data, owner)
            VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (kind, id) DO NOTHING RETURNING 1";
        // The statement is executed once: after a lost connection, a second execution would find the new document.
        let mut connection = self.connection().await?;
        let transaction = connection.transaction().await?;
        let Row { kind, id, parent, status, data, owner } = first;
        let params: [&(dyn ToSql + Sync); 6] = [&kind, &id, &parent, &status, &data, &owner];
        let insert = transaction.prepare_cached(insert).await?;
        if transaction.query_opt(&insert, &params).await?.is_none() {
            return Ok(false);
        }
        put(&transaction, &second, filter).await?;
        transaction.commit().await?;
        Ok(true)
    }

    async fn replace(&self, row: Row, expected: &str, added: Option<Row>) -> ApiResult<bool> {
        let update = "
            UPDATE graph_server.document SET data = $3 WHERE kind = $1 AND id = $2 AND data = $4 RETURNING 1";
        // The statement is executed once: after a lost connection, a second execution would find the new content.
        let mut connection = self.connection().await?;
        let transaction = connection.transaction().await?;
        let params: [&(dyn ToSql + Sync); 4] = [&row.kind, &row.id, &row.data, &expected];
        let update = transaction.prepare_cached(update).await?;
        let replaced = transaction.query_opt(&update, &params).await?.is_some();
        if let Some(added) = added.filter(|_| replaced) {
            put(&transaction, &added, Filter::default()).await?;
        }
        transaction.commit().await?;
        Ok(replaced)
    }

    async fn get(&self, kind: &str, id: &str, filter: Filter<'_>) -> ApiResult<Option<String>> {
        let select = format!(
            "SELECT data FROM graph_server.document d WHERE kind = $1 AND id = $2 AND {}",
            included("d", 3)
        );
        let rows = self.query_included(&select, kind, Some(id), filter).await?;
        Ok(rows.first().map(|it| it.try_get(0)).transpose()?)
    }

    async fn list(
        &self,
        kind: &str,
        parent: Option<&str>,
        filter: Filter<'_>,
    ) -> ApiResult<Vec<String>> {
        let select = format!(
            "SELECT data FROM graph_server.document d
            WHERE kind = $1 AND ($2::text IS NULL OR parent = $2) AND {} ORDER BY number",
            included("d", 3)
        );
        let rows = self.query_included(&select, kind, parent, filter).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    async fn search(
        &self,
        kind: &str,
        wanted: &Search<'_>,
        filter: Filter<'_>,
    ) -> ApiResult<Found> {
        search(self, kind, wanted, filter).await
    }

    async fn owner_of(&self, kind: &str, id: &str) -> ApiResult<Option<Option<String>>> {
        let select = "SELECT owner FROM graph_server.document WHERE kind = $1 AND id = $2";
        let row = self.query_opt(select, &[&kind, &id]).await?;
        Ok(row.map(|it| it.try_get(0)).transpose()?)
    }

    async fn is_excluded(&self, kind: &str, id: &str, filter: Filter<'_>) -> ApiResult<bool> {
        let select = format!(
            "SELECT FROM graph_server.document d WHERE kind = $1 AND id = $2 AND ({}) IS NOT TRUE",
            included("d", 3)
        );
        Ok(!self.query_included(&select, kind, Some(id), filter).await?.is_empty())
    }

    async fn delete(&self, kind: &str, id: &str, filter: Filter<'_>) -> ApiResult<bool> {
        let delete = format!(
            "DELETE FROM graph_server.document d WHERE kind = $1 AND id = $2 AND {} RETURNING 1",
            included("d", 3)
        );
        Ok(!self.query_included(&delete, kind, Some(id), filter).await?.is_empty())
    }

    async fn delete_children(&self, kind: &str, parent: &str, filter: Filter<'_>) -> ApiResult<()> {
        let delete = format!(
            "DELETE FROM graph_server.document d WHERE kind = $1 AND parent = $2 AND {}",
            included("d", 3)
        );
        self.query_included(&delete, kind, Some(parent), filter).await.map(drop)
    }

    async fn count_by_status(&self, kind: &str) -> ApiResult<Vec<(String, u64)>> {
        let select = "
            SELECT status, count(*) FROM graph_server.document
            WHERE kind = $1 AND status IS NOT NULL GROUP BY status";
        let rows = self.query(select, &[&kind]).await?;
        let count = |row: &tokio_postgres::Row| {
            let count: i64 = row.try_get(1)?;
            Ok((row.try_get(0)?, u64::try_from(count).unwrap_or_default()))
        };
        rows.iter().map(count).collect()
    }
}
