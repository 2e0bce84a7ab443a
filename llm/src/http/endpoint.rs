//! Endpoints of providers: base URL, API key and extra headers.

use std::{cmp::Reverse, fmt};

use reqwest::{
    Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret, SecretString};

use crate::codec::WireRequest;

/// How a provider expects the API key to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Auth {
    Bearer,
    /// The key is sent in the header with this name, which must be in lower case.
    Header(&'static str),
}

/// Minimum length, in bytes, of a secret. Shorter values are not redacted, because they may occur in any text by
/// chance.
const MIN_SECRET: usize = 8;

/// Base URL, API key and extra headers of a provider.
pub(crate) struct Endpoint {
    base: Url,
    key: Option<(Auth, SecretString)>,
    headers: HeaderMap,
    secrets: Vec<SecretString>,
}

impl Endpoint {
    pub(crate) fn new(base: Url, key: Option<(Auth, SecretString)>, headers: HeaderMap) -> Self {
        let secrets = secrets(&base, key.as_ref().map(|(_, key)| key), &headers);
        Self { base, key, headers, secrets }
    }

    /// Builds an HTTP request with its URL, API key, headers and body.
    pub(super) fn request(
        &self,
        client: &reqwest::Client,
        wire: &WireRequest,
    ) -> reqwest::RequestBuilder {
        let mut call = client.post(self.url(&wire.path)).header(CONTENT_TYPE, "application/json");
        for (name, value) in wire.headers {
            call = call.header(*name, *value);
        }
        // The user's headers are added last, so they replace the headers set above.
        self.authorized(call).headers(self.headers.clone()).body(wire.body.to_string())
    }

    /// Builds a request without a body. The path is relative to the server's root, which is the base URL without the
    /// version at its end.
    pub(super) fn get_from_root(
        &self,
        client: &reqwest::Client,
        path: &str,
    ) -> reqwest::RequestBuilder {
        let mut url = self.url("");
        let root = url.path().trim_end_matches('/').trim_end_matches("/v1");
        url.set_path(&format!("{root}{path}"));
        self.authorized(client.get(url)).headers(self.headers.clone())
    }

    fn authorized(&self, call: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let Some((auth, key)) = &self.key else { return call };
        let (name, value) = auth.header(key);
        call.header(name, value)
    }

    /// Returns the secrets that are sent with every request: the API key, and values in the headers and the URL that
    /// may be keys. Longer secrets come first, because a longer one may contain a shorter one.
    pub(super) fn secrets(&self) -> &[SecretString] {
        &self.secrets
    }

    pub(super) fn host(&self) -> String {
        let host = self.base.host_str().unwrap_or_default();
        self.base.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Appends a path and query to the base URL. The base URL of a gateway may already contain a query.
    fn url(&self, path: &str) -> Url {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        let queries = [self.base.query().unwrap_or_default(), query];
        let queries: Vec<&str> = queries.into_iter().filter(|it| !it.is_empty()).collect();
        url.set_query((!queries.is_empty()).then(|| queries.join("&")).as_deref());
        url
    }
}

fn secrets(base: &Url, key: Option<&SecretString>, headers: &HeaderMap) -> Vec<SecretString> {
    let mut secrets: Vec<String> = Vec::new();
    for value in headers.values().filter_map(|it| it.to_str().ok()) {
        secrets.push(value.to_owned());
        secrets.extend(credentials(value).map(str::to_owned));
    }
    for (_, value) in base.query_pairs() {
        secrets.push(value.into_owned());
    }
    // Adds the query values again in the form in which the URL contains them, because they may be percent-encoded
    // there.
    let written = base.query().into_iter().flat_map(|it| it.split('&'));
    secrets.extend(written.filter_map(|it| Some(it.split_once('=')?.1.to_owned())));
    secrets.extend(base.password().map(str::to_owned));
    secrets.extend(key.map(|it| it.expose_secret().to_owned()));
    secrets.retain(|it| it.len() >= MIN_SECRET);
    secrets.sort_by_key(|it| Reverse(it.len()));
    secrets.into_iter().map(SecretString::from).collect()
}

/// Returns the credentials in a header value that starts with an authentication scheme, such as `Bearer`.
fn credentials(header: &str) -> Option<&str> {
    let (scheme, credentials) = header.split_once(' ')?;
    let is_scheme = ["bearer", "basic", "token"].iter().any(|it| scheme.eq_ignore_ascii_case(it));
    is_scheme.then(|| credentials.trim())
}

impl Auth {
    fn header(self, key: &SecretString) -> (HeaderName, HeaderValue) {
        let (name, value) = match self {
            Self::Bearer => (AUTHORIZATION, format!("Bearer {}", key.expose_secret())),
            Self::Header(name) => (HeaderName::from_static(name), key.expose_secret().to_owned()),
        };
        let mut value = HeaderValue::try_from(value).expect(
            "keys that are not valid header values are rejected when the provider is built",
        );
        value.set_sensitive(true);
        (name, value)
    }
}

/// Omits the API key, the query and the headers, because they may be secret.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = format!("{}://{}{}", self.base.scheme(), self.host(), self.base.path());
        f.debug_struct("Endpoint").field("address", &address).finish_non_exhaustive()
    }
}
