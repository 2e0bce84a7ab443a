//! Prometheus metrics of a server.

use std::{sync::Arc, time::Duration};

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use super::Problem;
use crate::service::Service;

/// Prometheus metrics. Clones share the same counters.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    runs: Family<StatusLabels, Gauge>,
    pub(super) streams: Gauge,
    pub(super) events_sent: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabels {
    status: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        let buckets: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 4.0, 8));
        let mut registry = Registry::default();
        let metrics = Self {
            registry: Arc::default(),
            requests: Family::default(),
            seconds: Family::new_with_constructor(buckets),
            runs: Family::default(),
            streams: Gauge::default(),
            events_sent: Counter::default(),
        };
        registry.register("http_requests", "Requests answered", metrics.requests.clone());
        let help = "Seconds until the response header was sent";
        registry.register("http_request_seconds", help, metrics.seconds.clone());
        registry.register("runs", "Runs by status", metrics.runs.clone());
        registry.register("event_streams", "Open event streams", metrics.streams.clone());
        let help = "Events sent to clients";
        registry.register("events_sent", help, metrics.events_sent.clone());
        Self { registry: Arc::new(registry), ..metrics }
    }
}

impl Metrics {
    /// Counts a request. `route` is the route pattern and not the path, because there can be arbitrarily many paths.
    pub(super) fn count(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        let route = route.to_owned();
        self.seconds
            .get_or_create(&RouteLabels { route: route.clone() })
            .observe(took.as_secs_f64());
        let labels = RequestLabels { method, route, status };
        self.requests.get_or_create(&labels).inc();
    }

    /// Renders all metrics in the OpenMetrics text format.
    pub async fn render(&self, service: &Service) -> Result<Response, Problem> {
        for (status, count) in service.count_by_status().await? {
            self.set_runs(status.name(), count);
        }
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        Ok(respond(kind, self.encode()?))
    }

    /// Renders all metrics in the older Prometheus text format, which every scraper supports.
    pub(crate) fn render_prometheus(&self) -> Result<Response, Problem> {
        Ok(respond("text/plain; version=0.0.4; charset=utf-8", to_prometheus(&self.encode()?)))
    }

    /// Sets the number of runs with a status.
    pub(crate) fn set_runs(&self, status: &'static str, count: u64) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.runs.get_or_create(&StatusLabels { status }).set(count);
    }

    fn encode(&self) -> Result<String, Problem> {
        let mut text = String::new();
        encode(&mut text, &self.registry).map_err(|error| Problem::internal(&error))?;
        Ok(text)
    }
}

fn respond(kind: &'static str, text: String) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}

/// Converts metrics from the OpenMetrics format. In the older format, the description of a counter has the suffix
/// `_total` too, and there is no `# EOF` line.
fn to_prometheus(text: &str) -> String {
    let mut converted = String::with_capacity(text.len());
    let mut pending_help = None;
    for line in text.lines().filter(|it| *it != "# EOF") {
        if let Some(help) = line.strip_prefix("# HELP ") {
            pending_help = Some(help);
            continue;
        }
        let described = line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' '));
        if let Some((name, kind)) = described {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, help)) = pending_help.take().and_then(|it| it.split_once(' ')) {
                converted.push_str(&format!("# HELP {name}{suffix} {help}\n"));
            }
            converted.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
            continue;
        }
        converted.push_str(line);
        converted.push('\n');
    }
    converted
}

#[cfg(test)]
mod tests {
    use super::to_prometheus;

    #[test]
    fn counters_are_described_under_their_full_name() {
        let text = "# HELP sent Events sent.\n# TYPE sent counter\nsent_total 1\n# HELP runs Runs.\n\
                    # TYPE runs gauge\nruns{status=\"ok\"} 2\n# EOF\n";
        let expected = "# HELP sent_total Events sent.\n# TYPE sent_total counter\nsent_total 1\n\
                        # HELP runs Runs.\n# TYPE runs gauge\nruns{status=\"ok\"} 2\n";
        assert_eq!(to_prometheus(text), expected);
    }
}
