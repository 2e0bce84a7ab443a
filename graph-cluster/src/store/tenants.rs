//! Limits of tenants.

use super::database::RunStore;
use crate::{error::ClusterError, run::check_name};

/// Selects the names of the tenants that have reached their limit.
pub(super) const BUSY_TENANTS: &str = "
    SELECT t.name FROM graph_cluster.tenant t WHERE t.max_running <= (
        SELECT count(*) FROM graph_cluster.run b WHERE b.tenant = t.name AND b.status = 'running')";

impl RunStore {
    /// Limits the number of runs of a tenant that execute at the same time.
    pub(crate) async fn limit_tenant(
        &self,
        tenant: &str,
        max_running: u32,
    ) -> Result<(), ClusterError> {
        check_name("tenant name", tenant)?;
        // A higher limit may make queued runs executable.
        let upsert = "
            WITH stored AS (
                INSERT INTO graph_cluster.tenant (name, max_running) VALUES ($1, $2)
                ON CONFLICT (name) DO UPDATE SET max_running = $2 RETURNING name
            )
            SELECT pg_notify('graph_cluster', 'queued') FROM stored";
        self.query(upsert, &[&tenant, &i64::from(max_running)]).await.map(drop)
    }

    /// Removes the limit of a tenant.
    pub(crate) async fn unlimit_tenant(&self, tenant: &str) -> Result<(), ClusterError> {
        let delete = "
            WITH deleted AS (DELETE FROM graph_cluster.tenant WHERE name = $1 RETURNING name)
            SELECT pg_notify('graph_cluster', 'queued') FROM deleted";
        self.query(delete, &[&tenant]).await.map(drop)
    }
}
