//! Parses base URLs in the various forms that users write.

use reqwest::Url;

/// Parses a URL. If the text has no scheme, as in `OLLAMA_HOST`, it is parsed as an http URL, and `port` is the default
/// port.
pub(super) fn parse(text: &str, port: Option<u16>) -> Option<Url> {
    let text = text.trim();
    let mut url = if text.contains("://") {
        Url::parse(text).ok()?
    } else {
        let mut url = Url::parse(&format!("http://{text}")).ok()?;
        if !names_port(text) {
            url.set_port(port).ok()?;
        }
        url
    };
    // A server may listen on the wildcard address, but clients should connect to the loopback address instead.
    if url.host_str() == Some("0.0.0.0") {
        url.set_host(Some("127.0.0.1")).ok()?;
    }
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

/// Returns whether the address specifies a port. A parsed `Url` does not show this, because it omits the default port
/// of the scheme.
fn names_port(address: &str) -> bool {
    let machine = address.split('/').next().unwrap_or_default();
    let port = machine.rsplit_once(':').map_or("", |(_, port)| port);
    port.parse::<u16>().is_ok()
}
