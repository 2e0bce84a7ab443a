//! Addresses as people write them.

use reqwest::Url;

/// Reads an address; one without a scheme, as `OLLAMA_HOST` may be, is of a server with this port.
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
    // Where a server listens on all addresses, it is reached by this one.
    if url.host_str() == Some("0.0.0.0") {
        url.set_host(Some("127.0.0.1")).ok()?;
    }
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

/// A parsed address does not tell: it forgets a port that is the scheme's own.
fn names_port(address: &str) -> bool {
    let machine = address.split('/').next().unwrap_or_default();
    let port = machine.rsplit_once(':').map_or("", |(_, port)| port);
    port.parse::<u16>().is_ok()
}
