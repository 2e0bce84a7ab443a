//! Values that the workers of a run share.

use serde::{Serialize, de::DeserializeOwned};

use super::{
    database::RunStore,
    requests::{from_json, to_json},
};
use crate::error::ClusterError;

impl RunStore {
    /// Returns a value that the workers of a run share. Returns `None` if it was never stored.
    pub async fn read_value<T: DeserializeOwned>(
        &self,
        run: &str,
        name: &str,
    ) -> Result<Option<T>, ClusterError> {
        Ok(self.versioned_value(run, name).await?.map(|(_, value)| value))
    }

    /// Updates a value that the workers of a run share, such as the amount that the run has spent, and returns the
    /// result of the update. A value that was never stored has its default. It is deleted with its run; a client can
    /// store it before it starts the run.
    ///
    /// Concurrent updates are applied one after the other. If another worker changes the value at the same time, or if
    /// the connection is lost, `update` is called again with the stored value, so it must be idempotent: for example,
    /// it adds an entry under a key instead of incrementing a number.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use graph_cluster::RunStore;
    ///
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let Some(url) = graph_tests::postgres::fresh_database() else { return Ok(()) };
    /// let store = RunStore::connect(&url).await?;
    /// // The costs of the calls of a run, by call.
    /// let pay = |costs: &mut BTreeMap<String, u64>| {
    ///     costs.insert("call-1".to_owned(), 12);
    ///     costs.values().sum::<u64>()
    /// };
    /// assert_eq!(store.update_value("run-7", "costs", pay).await?, 12);
    /// # Ok(()) }
    /// ```
    pub async fn update_value<T, R>(
        &self,
        run: &str,
        name: &str,
        mut update: impl FnMut(&mut T) -> R,
    ) -> Result<R, ClusterError>
    where
        T: Default + Serialize + DeserializeOwned,
    {
        let store = "
            INSERT INTO graph_cluster.run_value AS v (run, name, version, value) VALUES ($1, $2, $3::bigint + 1, $4)
            ON CONFLICT (run, name) DO UPDATE SET version = excluded.version, value = excluded.value
            WHERE v.version = $3
            RETURNING version";
        loop {
            let (version, mut value) = self.versioned_value(run, name).await?.unwrap_or_default();
            let result = update(&mut value);
            let value = to_json(run, &value)?;
            if self.query_opt(store, &[&run, &name, &version, &value]).await?.is_some() {
                return Ok(result);
            }
        }
    }

    async fn versioned_value<T: DeserializeOwned>(
        &self,
        run: &str,
        name: &str,
    ) -> Result<Option<(i64, T)>, ClusterError> {
        let select =
            "SELECT version, value FROM graph_cluster.run_value WHERE run = $1 AND name = $2";
        let row = self.query_opt(select, &[&run, &name]).await?;
        row.map(|row| Ok((row.try_get("version")?, from_json(run, &row, "value")?))).transpose()
    }
}
