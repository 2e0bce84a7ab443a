//! Health probes.

/// Paths of the routes that report whether the server runs. Load balancers and supervisors request them.
const PATHS: [&str; 3] = ["/health", "/ready", "/ok"];

/// Returns whether a request for this path is a health probe. The server answers probes from a separate budget, so that
/// clients that use up the other limits do not make the server look dead.
pub(crate) fn is_probe(path: &str) -> bool {
    PATHS.contains(&path)
}
