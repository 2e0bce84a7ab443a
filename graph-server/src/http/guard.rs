//! Who may ask, and how much.

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

use super::{KeyHash, Metrics, Problem, rate::Rate, request};

/// Who may ask, and how much: put around all routes of a server.
///
/// - A request must name a host that the server is known by: an address, `localhost`, or a name it was told. A page of
///   another site that lets its own name point here is so refused.
/// - What changes something must not come from a page of another site, unless that site is on the list.
/// - With keys, every route that is locked needs one of them.
#[derive(Debug, Clone)]
pub struct Guard {
    keys: Vec<KeyHash>,
    hosts: Vec<String>,
    origins: Vec<HeaderValue>,
    body: usize,
    rate: u32,
}

/// Routes with a [`Guard`] around them, which is what [`serve`](crate::serve) takes.
#[derive(Debug, Clone)]
pub struct Guarded {
    pub(crate) router: Router,
    pub(crate) guard: Arc<Guard>,
}

impl Default for Guard {
    fn default() -> Self {
        Self { keys: vec![], hosts: vec![], origins: vec![], body: 1 << 20, rate: 1200 }
    }
}

impl Guard {
    /// No keys, no names, no other sites; bodies of up to a MiB; 1,200 requests a minute from an address.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more key that opens.
    #[must_use]
    pub fn key(mut self, key: KeyHash) -> Self {
        self.keys.push(key);
        self
    }

    /// One more name that the server is known by.
    #[must_use]
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into().to_ascii_lowercase());
        self
    }

    /// One more site whose pages may ask, like `https://example.org`.
    #[must_use]
    pub fn origin(mut self, origin: HeaderValue) -> Self {
        self.origins.push(origin);
        self
    }

    /// So many bytes a body may have.
    #[must_use]
    pub fn body(mut self, bytes: usize) -> Self {
        self.body = bytes;
        self
    }

    /// So many requests a minute may come from an address.
    #[must_use]
    pub fn rate(mut self, per_minute: u32) -> Self {
        self.rate = per_minute;
        self
    }

    /// Whether clients need a key.
    pub fn needs_key(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Whether a request with these headers may use what is locked.
    pub fn lets_in(&self, headers: &HeaderMap) -> bool {
        !self.needs_key() || self.keys.iter().any(|it| it.is_shown(headers))
    }

    /// Whether it is safe to listen at an address: others than this machine can reach it only with a key.
    pub fn suits(&self, address: SocketAddr) -> bool {
        address.ip().is_loopback() || self.needs_key()
    }

    /// Puts itself around routes: those that are open to all, and those that need a key where there is one. What has no
    /// route, or not for that method, is answered as any other error.
    pub fn around(self, open: Router, locked: Router, metrics: Metrics) -> Guarded {
        let expose = ["x-request-id", "retry-after"].map(HeaderName::from_static);
        let accept = [header::CONTENT_TYPE, header::AUTHORIZATION];
        let more = ["x-api-key", "last-event-id"].map(HeaderName::from_static);
        let cors = CorsLayer::new()
            .allow_origin(AllowOrigin::list(self.origins.clone()))
            .allow_methods([Method::GET, Method::POST])
            .allow_headers(accept.into_iter().chain(more).collect::<Vec<_>>())
            .expose_headers(expose);
        let (body, rate) = (self.body, Arc::new(Rate::new(self.rate)));
        let guard = Arc::new(self);
        let locked = locked.layer(middleware::from_fn_with_state(guard.clone(), key));
        // The last one is the first to see a request.
        let router = open
            .merge(locked)
            .fallback(async || Problem::not_found("there is nothing at this address"))
            .method_not_allowed_fallback(async || {
                let message = "this address does not take that method; `Allow` says which it takes";
                Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", message)
            })
            .layer(DefaultBodyLimit::max(body))
            .layer(CompressionLayer::new())
            .layer(middleware::from_fn_with_state(rate, pace))
            .layer(middleware::from_fn_with_state(guard.clone(), origin))
            .layer(cors)
            .layer(middleware::from_fn_with_state(metrics, request::note));
        Guarded { router, guard }
    }
}

async fn key(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    if !guard.lets_in(request.headers()) {
        let message = "this server needs a key: send it as `Authorization: Bearer KEY` or as `X-Api-Key: KEY`";
        let mut response =
            Problem::new(StatusCode::UNAUTHORIZED, "no_key", message).into_response();
        let challenge = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    }
    next.run(request).await
}

async fn pace(State(rate): State<Arc<Rate>>, request: Request, next: Next) -> Response {
    let client = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|it| it.0.ip());
    if let Some(client) = client
        && let Err(wait) = rate.take(client, Instant::now())
    {
        let message = "too many requests from this address";
        return Problem::too_many(message, wait.as_secs() + 1).into_response();
    }
    next.run(request).await
}

async fn origin(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    match guard.check(request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

impl Guard {
    fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
        let refuse = |code, message: &str| Err(Problem::new(StatusCode::FORBIDDEN, code, message));
        let host = headers.get(header::HOST).and_then(|it| it.to_str().ok()).unwrap_or_default();
        if !self.is_known(host) {
            return refuse(
                "unknown_host",
                "this server is not known by that name; its operator can add it with --host",
            );
        }
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
        if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
            return Ok(());
        }
        let is_own =
            origin.to_str().ok().and_then(|it| it.split_once("://")).map(|it| it.1) == Some(host);
        if is_own || self.origins.contains(origin) {
            return Ok(());
        }
        refuse("other_site", "a page of another site may not ask for this")
    }

    fn is_known(&self, host: &str) -> bool {
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
    fn strangers_names_and_sites_are_refused() {
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
    }

    #[test]
    fn an_open_address_needs_a_key() {
        let (near, far) = ("127.0.0.1:80".parse().unwrap(), "0.0.0.0:80".parse().unwrap());
        assert!(Guard::new().suits(near) && !Guard::new().suits(far));
        assert!(Guard::new().key(KeyHash::of("k")).suits(far));
    }
}
