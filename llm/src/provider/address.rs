//! Parsing of base URLs as people write them.

use reqwest::Url;

/// Parses a URL. Without a scheme, as in `OLLAMA_HOST`, it is an http URL with this default port.
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
    // Clients cannot connect to the wildcard address that a server listens on.
    if url.host_str() == Some("0.0.0.0") {
        url.set_host(Some("127.0.0.1")).ok()?;
    }
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

/// Returns whether the address names a port. A parsed `Url` omits the scheme's default port.
fn names_port(address: &str) -> bool {
    let machine = address.split('/').next().unwrap_or_default();
    let port = machine.rsplit_once(':').map_or("", |(_, port)| port);
    port.parse::<u16>().is_ok()
}
