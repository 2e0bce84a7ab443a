//! Documents in PostgreSQL.

use async_trait::async_trait;
use deadpool_postgres::Transaction;

use super::{connection::PostgresStorage, search::search};
use crate::langgraph::{
    error::{ApiError, ApiResult},
    storage::{Documents, Filter, Found, Row, Search},
};

const PUT: &str = "
    INSERT INTO graph_server.document AS d (kind, id, parent, status, data, owner)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (kind, id) DO UPDATE
    SET parent = excluded.parent, status = excluded.status, data = excluded.data
    WHERE $7::text IS NULL OR d.owner = $7
    RETURNING 1";

/// Stores a document in a transaction.
pub(super) async fn put(transaction: &Transaction<'_>, row: &Row) -> ApiResult<()> {
    let Row { kind, id, parent, status, data, owner } = row;
    let put = transaction.prepare_cached(PUT).await?;
    transaction.query(&put, &[kind, id, parent, status, data, owner, &None::<&str>]).await?;
    Ok(())
}

#[async_trait]
impl Documents for PostgresStorage {
    async fn put(&self, row: Row, owner: Option<&str>) -> ApiResult<()> {
        let Row { kind, id, parent, status, data, owner: new_owner } = row;
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
            [&kind, &id, &parent, &status, &data, &new_owner, &owner];
        match self.query_opt(PUT, &params).await? {
            Some(_) => Ok(()),
            None => Err(ApiError::id_in_use()),
        }
    }

    async fn replace(&self, row: Row, expected: &str) -> ApiResult<bool> {
        let update = "
            UPDATE graph_server.document SET data = $3 WHERE kind = $1 AND id = $2 AND data = $4 RETURNING 1";
        // The statement is executed once: after a lost connection, a second execution would find the new content.
        let connection = self.connection().await?;
        let rows = connection.query(update, &[&row.kind, &row.id, &row.data, &expected]).await?;
        Ok(!rows.is_empty())
    }

    async fn get(&self, kind: &str, id: &str, filter: Filter<'_>) -> ApiResult<Option<String>> {
        let select = "
            SELECT data FROM graph_server.document
            WHERE kind = $1 AND id = $2 AND ($3::text IS NULL OR owner = $3 OR $4 AND owner IS NULL)";
        let row = self.query_opt(select, &[&kind, &id, &filter.owner, &filter.shared]).await?;
        Ok(row.map(|it| it.try_get(0)).transpose()?)
    }

    async fn list(
        &self,
        kind: &str,
        parent: Option<&str>,
        filter: Filter<'_>,
    ) -> ApiResult<Vec<String>> {
        let statement = "
            SELECT data FROM graph_server.document
            WHERE kind = $1 AND ($2::text IS NULL OR parent = $2)
                AND ($3::text IS NULL OR owner = $3 OR $4 AND owner IS NULL)
            ORDER BY number";
        let rows = self.query(statement, &[&kind, &parent, &filter.owner, &filter.shared]).await?;
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

    async fn delete(&self, kind: &str, id: &str, owner: Option<&str>) -> ApiResult<bool> {
        let delete = "
            DELETE FROM graph_server.document
            WHERE kind = $1 AND id = $2 AND ($3::text IS NULL OR owner = $3) RETURNING 1";
        Ok(self.query_opt(delete, &[&kind, &id, &owner]).await?.is_some())
    }

    async fn delete_children(
        &self,
        kind: &str,
        parent: &str,
        owner: Option<&str>,
    ) -> ApiResult<()> {
        let delete = "
            DELETE FROM graph_server.document
            WHERE kind = $1 AND parent = $2 AND ($3::text IS NULL OR owner = $3)";
        self.query(delete, &[&kind, &parent, &owner]).await.map(drop)
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
