//! Metrics of a cluster, in the text format of Prometheus.

use prometheus_client::{
    encoding::text::encode,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use tokio_postgres::Row;

use super::database::RunStore;
use crate::error::ClusterError;

type Labels = Vec<(&'static str, String)>;

/// A gauge that a query fills: each row contains the values of the labels and the value of the gauge.
struct GaugeQuery {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    query: &'static str,
}

const GAUGES: [GaugeQuery; 6] = [
    GaugeQuery {
        name: "graph_cluster_runs",
        help: "Number of runs",
        labels: &["graph", "status"],
        query: "SELECT graph, status, count(*) FROM graph_cluster.run GROUP BY 1, 2 ORDER BY 1, 2",
    },
    GaugeQuery {
        name: "graph_cluster_oldest_queued_seconds",
        help: "Time for which the oldest queued run has waited",
        labels: &["graph"],
        query: "SELECT graph, extract(epoch FROM max(now() - greatest(updated_at, due_at)))::bigint
            FROM graph_cluster.run WHERE status = 'queued' AND due_at <= now() GROUP BY 1 ORDER BY 1",
    },
    GaugeQuery {
        name: "graph_cluster_workers",
        help: "Number of workers that have reported within the last minute",
        labels: &["state"],
        query: "SELECT CASE WHEN draining THEN 'draining' ELSE 'working' END, count(*) FROM graph_cluster.worker
            WHERE seen_at > now() - interval '1 minute' GROUP BY 1 ORDER BY 1",
    },
    GaugeQuery {
        name: "graph_cluster_worker_runs",
        help: "Number of runs that a worker executes",
        labels: &["worker"],
        query: "SELECT worker, count(*) FROM graph_cluster.run WHERE status = 'running' GROUP BY 1 ORDER BY 1",
    },
    GaugeQuery {
        name: "graph_cluster_tasks",
        help: "Number of spread tasks that have not ended",
        labels: &["graph", "pool", "state"],
        query: "SELECT graph, coalesce(pool, ''), CASE WHEN worker IS NULL THEN 'waiting' ELSE 'executing' END, count(*)
            FROM graph_cluster.task WHERE outcome IS NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
    },
    GaugeQuery {
        name: "graph_cluster_tenant_runs",
        help: "Number of active runs of a tenant",
        labels: &["tenant", "status"],
        query: "SELECT tenant, status, count(*) FROM graph_cluster.run
            WHERE tenant IS NOT NULL AND status IN ('queued', 'running') GROUP BY 1, 2 ORDER BY 1, 2",
    },
];

impl RunStore {
    /// Returns the metrics of the whole cluster.
    pub(crate) async fn metrics(&self) -> Result<String, ClusterError> {
        let mut registry = Registry::default();
        for gauge in GAUGES {
            let family = Family::<Labels, Gauge>::default();
            for row in self.query(gauge.query, &[]).await? {
                family
                    .get_or_create(&labels(gauge.labels, &row)?)
                    .set(row.try_get(gauge.labels.len())?);
            }
            registry.register(gauge.name, gauge.help, family);
        }
        let mut text = String::new();
        encode(&mut text, &registry).expect("writing to a string succeeds");
        Ok(text)
    }
}

fn labels(names: &[&'static str], row: &Row) -> Result<Labels, ClusterError> {
    let label =
        |(index, name): (usize, &&'static str)| Ok((*name, escape(row.try_get::<_, &str>(index)?)));
    names.iter().enumerate().map(label).collect()
}

/// Escapes the value of a label, because the encoder does not escape it.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn values_of_labels_are_escaped() {
        assert_eq!(escape("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
    }
}
