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
            let labels = StatusLabels { status: status.name() };
            self.runs.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let mut text = String::new();
        encode(&mut text, &self.registry).map_err(|error| Problem::internal(&error))?;
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        Ok(([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response())
    }
}
