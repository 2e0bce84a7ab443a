//! The HTTP transport: makes a model from a protocol, a base URL and an API key.
//!
//! All timeouts except the connect timeout are enforced here rather than by the HTTP client, so that an error states
//! which phase timed out. Dropping a call closes its connection, which cancels the call at the provider.

use std::{
    borrow::Cow,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use tokio::time::timeout;

use self::{body::Body, errors::timed_out};
pub(crate) use self::{
    client::client,
    endpoint::{Auth, Endpoint},
};
pub use self::{
    client::{ClientError, http_client},
    settings::{Limits, Timeouts},
};
use crate::{
    Catalog, Error, Listener, Model, ModelId, Phase, Request, Response,
    codec::{CallError, DecodedResponse, Protocol, StreamReader},
};

mod body;
mod client;
mod context_size;
pub(crate) mod embedding;
mod endpoint;
mod errors;
mod settings;

/// Maximum time to wait for the next piece of a stream whose finish reason has arrived. Some servers send neither an
/// end marker nor the end of the body.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A model that is called over HTTP.
pub(crate) struct HttpModel {
    pub(crate) id: ModelId,
    pub(crate) protocol: Protocol,
    pub(crate) endpoint: Endpoint,
    pub(crate) client: reqwest::Client,
    pub(crate) timeouts: Timeouts,
    pub(crate) limits: Limits,
    pub(crate) catalog: Arc<Catalog>,
}

#[async_trait]
impl Model for HttpModel {
    fn id(&self) -> ModelId {
        self.id.clone()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let start = Instant::now();
        let total = self.timeouts.total;
        let answer =
            match timeout(total, self.exchange(&self.adapt_request(request), listener)).await {
                Ok(answer) => answer?,
                Err(_) => return Err(self.error(timed_out(Phase::Total, total), None)),
            };
        let cost = || self.catalog.entry(&self.id)?.cost(answer.usage.as_ref()?);
        Ok(Response {
            cost: answer.cost.or_else(cost),
            model: ModelId {
                provider: self.id.provider.clone(),
                model: answer.model.unwrap_or_else(|| self.id.model.clone()),
            },
            content: answer.content,
            finish: answer.finish,
            usage: answer.usage,
            latency: start.elapsed(),
            logprobs: answer.logprobs,
        })
    }
}

impl HttpModel {
    /// Removes the temperature from the request if the model rejects it.
    fn adapt_request<'a>(&self, request: &'a Request) -> Cow<'a, Request> {
        if request.temperature.is_none() || self.supports_temperature() {
            return Cow::Borrowed(request);
        }
        Cow::Owned(Request { temperature: None, ..request.clone() })
    }

    /// Returns whether the model accepts a temperature. The catalog takes precedence over the model's name.
    fn supports_temperature(&self) -> bool {
        let configured = self.catalog.entry(&self.id).and_then(|it| it.temperature);
        configured.unwrap_or_else(|| self.protocol.supports_temperature(&self.id.model))
    }

    async fn exchange(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<DecodedResponse, Error> {
        let without_status = |error| self.error(error, None);
        let wire = self.protocol.encode(&self.id.model, request, listener.is_listening());
        let wire = wire.map_err(without_status)?;
        let call = self.endpoint.request(&self.client, &wire);
        let mut body = self.send(call).await.map_err(without_status)?;
        let status = body.status();
        let answer = self.read_response(&mut body, listener).await.and_then(|answer| {
            let checked = self.protocol.check_not_truncated(&wire, &answer);
            checked.map_err(|error| error.or_usage(answer.usage.unwrap_or_default()))?;
            Ok(answer)
        });
        answer.map_err(|error| self.error(error, Some(status.as_u16())))
    }

    /// Sends the request and waits for the response headers.
    async fn send(&self, call: reqwest::RequestBuilder) -> Result<Body, CallError> {
        let Timeouts { first_byte, connect, .. } = self.timeouts;
        let start = Instant::now();
        match timeout(first_byte, call.send()).await {
            Ok(Ok(response)) => Ok(Body::new(response, start, self.timeouts, self.limits)),
            Ok(Err(error)) if error.is_connect() && error.is_timeout() => {
                Err(timed_out(Phase::Connect, connect))
            }
            Ok(Err(error)) => Err(errors::connect_failed(&error, &self.endpoint.host())),
            Err(_) => Err(timed_out(Phase::FirstByte, first_byte)),
        }
    }

    async fn read_response(
        &self,
        body: &mut Body,
        listener: &mut Listener<'_>,
    ) -> Result<DecodedResponse, CallError> {
        body.check_status().await?;
        let mut reader = StreamReader::new(self.protocol, self.limits.event_bytes);
        // A server that does not support streaming answers with one JSON document.
        if !listener.is_listening() || is_json(body.headers()) {
            let bytes = body.read_all().await?;
            // Some servers send events with the wrong content type.
            if listener.is_listening() && starts_with_event(&bytes) {
                reader.push(&bytes, listener)?;
                return reader.finish(listener);
            }
            let answer = self.protocol.decode(&bytes)?;
            listener.send_parts(&answer.content);
            return Ok(answer);
        }
        while !reader.is_done() {
            let bytes = match body.next().await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                // Only token counts and the end marker can be missing.
                Err(_) if reader.has_finish_reason() => break,
                Err(error) => return Err(reader.with_usage(error)),
            };
            reader.push(bytes.as_ref(), listener)?;
            if reader.has_finish_reason() {
                body.limit_idle_time(END_TIMEOUT);
            }
        }
        body.drain().await;
        reader.finish(listener)
    }

    fn error(&self, error: CallError, status: Option<u16>) -> Error {
        let message = errors::sanitize(error.message, self.endpoint.secrets());
        CallError { message, ..error }.into_error(self.id.clone(), status)
    }
}

fn starts_with_event(body: &[u8]) -> bool {
    let body = body.trim_ascii_start();
    ["data:", "event:", ":"].iter().any(|it| body.starts_with(it.as_bytes()))
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    content_type.is_some_and(|it| it.trim_start().starts_with("application/json"))
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel")
            .field("id", &self.id)
            .field("endpoint", &self.endpoint)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}
