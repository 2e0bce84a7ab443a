//! Access control and request limits.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use axum::{
    Router,
    extract::{ConnectInfo, DefaultBodyLimit, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use tower_http::{
    compression::CompressionLayer,
    cors::{AllowOrigin, CorsLayer},
};

use super::{
    Authenticator, Client, KeyHash, Metrics, Problem, probe::is_probe, rate_limiter::RateLimiter,
    request_log,
};

/// Access control and request limits for all routes of a server.
///
/// - The `Host` header must be an IP address, `localhost` or a configured host name. This prevents DNS rebinding.
/// - Requests that change state must not come from web pages of other sites, unless their origin is configured.
/// - If API keys or authenticators are configured, every locked route requires valid credentials.
/// - Changes and rejected requests are logged with the target `audit`.
///
/// ```
/// use axum::{Router, http::HeaderMap, routing::get};
/// use graph_server::http::{Guard, KeyHash, Metrics};
///
/// let key = KeyHash::of_checked("0123456789abcdef0123456789abcdef")?;
/// let guard = Guard::new().key(key).host("graphs.example.org").rate_limit(600);
/// assert!(!guard.authorizes(&HeaderMap::new()), "the key is missing");
///
/// let open = Router::new().route("/health", get(async || "ok"));
/// let locked = Router::new().route("/secrets", get(async || "the key is required"));
/// let guarded = guard.wrap(open, locked, Metrics::default());
/// // Pass `guarded` to `serve` or `serve_until`.
/// # let _ = guarded;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Guard {
    keys: Vec<KeyHash>,
    authenticators: Vec<Arc<dyn Authenticator>>,
    hosts: Vec<String>,
    origins: Vec<HeaderValue>,
    local_origins: bool,
    body: usize,
    rate: u32,
    connections: Option<usize>,
}

/// Routes that are protected by a [`Guard`]. [`serve`](crate::serve) accepts only such routes.
#[derive(Debug, Clone)]
pub struct Guarded {
    pub(crate) router: Router,
    pub(crate) guard: Arc<Guard>,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            keys: vec![],
            authenticators: vec![],
            hosts: vec![],
            origins: vec![],
            local_origins: false,
            body: 1 << 20,
            rate: 1200,
            connections: None,
        }
    }
}

impl Guard {
    /// Creates a guard without API keys, host names and origins. It allows request bodies of up to 1 MiB and up to
    /// 1,200 requests per minute from each client address.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the hash of an API key of the operator. Requests with this key belong to no owner and can access the
    /// objects of all owners. To give each user a separate key, use [`authenticator`](Self::authenticator).
    pub fn key(mut self, key: KeyHash) -> Self {
        self.keys.push(key);
        self
    }

    /// Adds an authenticator, such as [`ApiKeys`](super::ApiKeys) or [`Jwt`](super::Jwt). The first authenticator that
    /// recognises the credentials of a request decides.
    pub fn authenticator(mut self, authenticator: impl Authenticator + 'static) -> Self {
        self.authenticators.push(Arc::new(authenticator));
        self
    }

    /// Adds a host name under which clients may address this server.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into().to_ascii_lowercase());
        self
    }

    /// Adds an origin whose web pages may send requests, such as `https://example.org`.
    pub fn origin(mut self, origin: HeaderValue) -> Self {
        self.origins.push(origin);
        self
    }

    /// Allows requests from all web pages that are served on this machine, such as `http://localhost:3000`. Intended
    /// for development.
    pub fn local_origins(mut self) -> Self {
        self.local_origins = true;
        self
    }

    /// Sets the maximum size of a request body in bytes.
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.body = bytes;
        self
    }

    /// Sets the maximum number of requests per minute from each client address.
    pub fn rate_limit(mut self, per_minute: u32) -> Self {
        self.rate = per_minute;
        self
    }

    /// Sets the maximum number of connections of each client address. The default is half of the server's maximum. A
    /// server behind a reverse proxy sees only the address of the proxy, so it should allow more.
    pub fn connection_limit(mut self, per_client: usize) -> Self {
        self.connections = Some(per_client);
        self
    }

    /// Returns the configured maximum number of connections of each client address.
    pub(crate) fn max_connections(&self) -> Option<usize> {
        self.connections
    }

    /// Returns whether clients need credentials.
    pub fn needs_key(&self) -> bool {
        !self.keys.is_empty() || !self.authenticators.is_empty()
    }

    /// Returns whether a request with these headers may use locked routes as the operator.
    pub fn authorizes(&self, headers: &HeaderMap) -> bool {
        !self.needs_key() || self.keys.iter().any(|it| it.matches(headers))
    }

    /// Returns whether the server may listen on an address. An address that other machines can reach requires API keys
    /// or authenticators.
    pub fn may_listen_on(&self, address: SocketAddr) -> bool {
        address.ip().is_loopback() || self.needs_key()
    }

    /// Adds access control and request limits to routes. The routes in `open` are accessible to everyone; the routes in
    /// `locked` require credentials if the guard has API keys or authenticators. Unknown paths and methods get the same
    /// kind of error response as other failures.
    pub fn wrap(self, open: Router, locked: Router, metrics: Metrics) -> Guarded {
        let expose = [
            "x-request-id", "retry-after", "location", "content-location", "x-pagination-total",
            "x-pagination-next", "preference-applied",
        ];
        let accept = [header::CONTENT_TYPE, header::AUTHORIZATION, header::CACHE_CONTROL];
        let more = ["x-api-key", "last-event-id", "prefer", "traceparent", "mcp-protocol-version"];
        let more = more.map(HeaderName::from_static);
        let methods = [
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
        ];
        let (body, rate) = (self.body, Arc::new(RateLimits::new(self.rate)));
        let guard = Arc::new(self);
        let allowed = guard.clone();
        let cors = CorsLayer::new()
            .allow_origin(AllowOrigin::predicate(move |origin, _| allowed.allows_origin(origin)))
            .allow_methods(methods)
            .allow_headers(accept.into_iter().chain(more).collect::<Vec<_>>())
            .expose_headers(expose.map(HeaderName::from_static));
        let locked = locked.layer(middleware::from_fn_with_state(guard.clone(), require_key));
        // The layer that is added last sees a request first.
        let router = open
            .merge(locked)
            .fallback(async || Problem::not_found("no resource exists at this URL; check the path"))
            .method_not_allowed_fallback(async || {
                let message = "this URL does not support the method; see the `Allow` header";
                Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", message)
            })
            .layer(DefaultBodyLimit::max(body))
            .layer(CompressionLayer::new())
            .layer(middleware::from_fn_with_state(rate, limit_rate))
            .layer(middleware::from_fn_with_state(guard.clone(), check_origin))
            .layer(cors)
            .layer(middleware::from_fn_with_state(metrics, request_log::log_request));
        Guarded { router, guard }
    }
}

/// Rejects requests without valid credentials, and adds the [`Client`] to requests that belong to one.
async fn require_key(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    let client = match guard.identify(request.headers()).await {
        Ok(client) => client,
        Err(problem) => {
            let (method, path) = (request.method(), request.uri().path());
            tracing::warn!(target: "audit", %method, path, problem, "request rejected");
            let mut response =
                Problem::new(StatusCode::UNAUTHORIZED, "no_key", problem).into_response();
            let challenge = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            return response;
        }
    };
    let owner = client.as_ref().map(|it| it.owner.clone());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    if let Some(client) = client {
        request.extensions_mut().insert(client);
    }
    let response = next.run(request).await;
    let is_change = !matches!(method, Method::GET | Method::HEAD);
    if guard.needs_key() && (is_change || response.status() == StatusCode::FORBIDDEN) {
        let status = response.status().as_u16();
        tracing::info!(target: "audit", owner, %method, path, status, "request answered");
    }
    response
}

/// The request rates of all addresses. Health probes have a separate budget, so they are answered even if the other
/// requests from their address exceed the limit.
struct RateLimits {
    requests: RateLimiter,
    probes: RateLimiter,
}

impl RateLimits {
    fn new(per_minute: u32) -> Self {
        Self { requests: RateLimiter::new(per_minute), probes: RateLimiter::new(per_minute) }
    }
}

async fn limit_rate(
    State(rates): State<Arc<RateLimits>>,
    request: Request,
    next: Next,
) -> Response {
    let client = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|it| it.0.ip());
    let rate = if is_probe(request.uri().path()) { &rates.probes } else { &rates.requests };
    if let Some(client) = client
        && let Err(wait) = rate.check(client, Instant::now())
    {
        let message =
            "too many requests from this address; retry after the time in the `Retry-After` header";
        return Problem::too_many(message, wait.as_secs() + 1).into_response();
    }
    next.run(request).await
}

async fn check_origin(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    match guard.check(request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

impl Guard {
    /// Returns the client that sent a request, or `None` if the request belongs to the operator. The error states why
    /// the request is rejected.
    async fn identify(&self, headers: &HeaderMap) -> Result<Option<Client>, String> {
        if self.authorizes(headers) {
            return Ok(None);
        }
        for authenticator in &self.authenticators {
            match authenticator.authenticate(headers).await {
                Ok(Some(client)) => return Ok(Some(client)),
                Ok(None) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        let message = "credentials are required; send an API key or token as `Authorization: Bearer KEY`, or an API \
                       key as `X-Api-Key: KEY`";
        Err(message.to_owned())
    }

    fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
        let reject = |code, message: &str| Err(Problem::new(StatusCode::FORBIDDEN, code, message));
        let host = headers.get(header::HOST).and_then(|it| it.to_str().ok()).unwrap_or_default();
        if !self.is_known_host(host) {
            return reject(
                "unknown_host",
                "the `Host` header does not match a name of this server; the operator can allow a name \
                 with `--host` or `Guard::host`",
            );
        }
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
        // Browsers let pages of any site open WebSockets, so they are treated like requests that change something.
        let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if reads && !headers.contains_key(header::UPGRADE) {
            return Ok(());
        }
        let is_own =
            origin.to_str().ok().and_then(|it| it.split_once("://")).map(|it| it.1) == Some(host);
        if is_own || self.allows_origin(origin) {
            return Ok(());
        }
        reject(
            "other_site",
            "requests from web pages of other sites are not allowed; the operator can allow an origin \
             with `--origin` or `Guard::origin`",
        )
    }

    fn allows_origin(&self, origin: &HeaderValue) -> bool {
        let host = origin.to_str().ok().and_then(|it| it.strip_prefix("http://"));
        let name = host.map(|it| it.rsplit_once(':').map_or(it, |it| it.0));
        let is_local = name.is_some_and(|it| matches!(it, "localhost" | "127.0.0.1" | "[::1]"));
        self.origins.contains(origin) || (self.local_origins && is_local)
    }

    fn is_known_host(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[').and_then(|it| it.split_once(']')) {
            Some((address, _)) => address,
            None => host.rsplit_once(':').map_or(host, |it| it.0),
        };
        let name = name.to_ascii_lowercase();
        name == "localhost" || name.parse::<IpAddr>().is_ok() || self.hosts.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, Method, header};

    use super::{Guard, KeyHash};

    #[test]
    fn unknown_hosts_and_origins_are_rejected() {
        let guard = Guard::new()
            .host("Agents.example.org")
            .origin(HeaderValue::from_static("https://friend.example"));
        let check = |method: Method, host: &'static str, origin: Option<&'static str>| {
            let host = (header::HOST, HeaderValue::from_static(host));
            let origin = origin.map(|it| (header::ORIGIN, HeaderValue::from_static(it)));
            guard.check(&method, &HeaderMap::from_iter([host].into_iter().chain(origin))).is_ok()
        };
        for host in ["localhost", "localhost:80", "127.0.0.1:1", "[::1]:80", "agents.example.org"] {
            assert!(check(Method::GET, host, None), "{host}");
        }
        for host in ["", "evil.example", "evil.example:80", "127.0.0.1.evil.example", "[x]:80"] {
            assert!(!check(Method::GET, host, None), "{host}");
        }
        assert!(check(Method::POST, "localhost:80", Some("http://localhost:80")));
        assert!(check(Method::POST, "localhost:80", Some("https://friend.example")));
        assert!(!check(Method::POST, "localhost:80", Some("http://localhost:81")));
        assert!(!check(Method::POST, "localhost:80", Some("null")));
        assert!(check(Method::GET, "localhost:80", Some("https://evil.example")));
        let socket = HeaderMap::from_iter([
            (header::HOST, HeaderValue::from_static("localhost:80")),
            (header::ORIGIN, HeaderValue::from_static("https://evil.example")),
            (header::UPGRADE, HeaderValue::from_static("websocket")),
        ]);
        assert!(guard.check(&Method::GET, &socket).is_err());
    }

    #[test]
    fn local_origins_are_allowed_on_request() {
        let local = HeaderValue::from_static("http://localhost:3000");
        let other = HeaderValue::from_static("http://localhost.evil.example:3000");
        assert!(Guard::new().local_origins().allows_origin(&local));
        assert!(!Guard::new().allows_origin(&local));
        assert!(!Guard::new().local_origins().allows_origin(&other));
    }

    #[test]
    fn public_addresses_require_a_key() {
        let (local, public) = ("127.0.0.1:80".parse().unwrap(), "0.0.0.0:80".parse().unwrap());
        assert!(Guard::new().may_listen_on(local) && !Guard::new().may_listen_on(public));
        assert!(Guard::new().key(KeyHash::of("k")).may_listen_on(public));
    }
}
