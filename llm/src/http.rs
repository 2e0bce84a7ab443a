//! HTTP: a codec, an address and a key make a model.
//!
//! All time limits but that of the connection are kept here and not by the client, so that an error says in which
//! phase the time ran out.
//! A dropped call drops its connection with it, which tells the provider to stop.

use std::{borrow::Cow, fmt, sync::Arc, time::Instant};

use async_trait::async_trait;
use reqwest::header::HeaderMap;
use tokio::time::timeout;

use self::{body::Body, words::late};
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
    codec::{Answer, Codec, Fault, Headers, Incoming},
};

mod body;
mod client;
mod endpoint;
mod settings;
mod words;

/// A model behind an address.
pub(crate) struct HttpModel {
    pub(crate) id: ModelId,
    pub(crate) codec: Box<dyn Codec>,
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
        let whole = self.timeouts.whole;
        let answer = match timeout(whole, self.ask(&self.fitting(request), listener)).await {
            Ok(answer) => answer?,
            Err(_) => return Err(self.error(late(Phase::Whole, whole), None)),
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
        })
    }
}

impl HttpModel {
    /// The request without a temperature, if the model takes none.
    fn fitting<'a>(&self, request: &'a Request) -> Cow<'a, Request> {
        if request.temperature.is_none() || self.takes_temperature() {
            return Cow::Borrowed(request);
        }
        Cow::Owned(Request { temperature: None, ..request.clone() })
    }

    /// What the catalog says counts before what the model's name tells.
    fn takes_temperature(&self) -> bool {
        let said = self.catalog.entry(&self.id).and_then(|it| it.temperature);
        said.unwrap_or_else(|| self.codec.takes_temperature(&self.id.model))
    }

    async fn ask(&self, request: &Request, listener: &mut Listener<'_>) -> Result<Answer, Error> {
        let without_status = |fault| self.error(fault, None);
        let wire = self.codec.encode(&self.id.model, request, listener.is_listening());
        let wire = wire.map_err(without_status)?;
        let call = self.endpoint.request(&self.client, &wire);
        let mut body = self.open(call).await.map_err(without_status)?;
        let status = body.status();
        let answer = self.read(&mut body, listener).await.and_then(|answer| {
            self.codec.check_heard(&wire, &answer)?;
            Ok(answer)
        });
        answer.map_err(|fault| self.error(fault, Some(status.as_u16())))
    }

    /// Sends the request, and waits for the head of the answer.
    async fn open(&self, call: reqwest::RequestBuilder) -> Result<Body, Fault> {
        let Timeouts { first_byte, connect, .. } = self.timeouts;
        let start = Instant::now();
        match timeout(first_byte, call.send()).await {
            Ok(Ok(response)) => Ok(Body::new(response, start, self.timeouts, self.limits)),
            Ok(Err(error)) if error.is_connect() && error.is_timeout() => {
                Err(late(Phase::Connect, connect))
            }
            Ok(Err(error)) => Err(words::unreachable(&error, &self.endpoint.host())),
            Err(_) => Err(late(Phase::FirstByte, first_byte)),
        }
    }

    async fn read(&self, body: &mut Body, listener: &mut Listener<'_>) -> Result<Answer, Fault> {
        let status = body.status();
        if status.is_redirection() {
            return Err(words::redirected(body.headers()));
        }
        if !status.is_success() {
            let beginning = body.beginning().await;
            let headers = Received(body.headers());
            return Err(self.codec.decode_error(status.as_u16(), &headers, &beginning));
        }
        if !listener.is_listening() {
            return self.codec.decode(&body.whole().await?);
        }
        let mut incoming = Incoming::new(&*self.codec, self.limits.event_bytes);
        while !incoming.is_done() {
            let Some(bytes) = body.next().await? else { break };
            incoming.push(bytes.as_ref(), listener)?;
        }
        body.drain().await;
        incoming.finish(listener)
    }

    fn error(&self, fault: Fault, status: Option<u16>) -> Error {
        let message = words::clean(fault.message, self.endpoint.secrets());
        Fault { message, ..fault }.at(self.id.clone(), status)
    }
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel")
            .field("id", &self.id)
            .field("endpoint", &self.endpoint)
            .field("codec", &self.codec)
            .finish_non_exhaustive()
    }
}

/// The headers of an answer, as codecs read them.
struct Received<'a>(&'a HeaderMap);

impl Headers for Received<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }
}
