//! Options of an MCP connection.

use std::{collections::HashMap, time::Duration};

use llm::{ExposeSecret, SecretString};
use reqwest::header::{HeaderName, HeaderValue};

use super::error::McpError;

/// Options of an [`McpClient`](super::McpClient).
///
/// ```
/// use std::time::Duration;
/// use graph_agents::mcp::McpOptions;
///
/// let options = McpOptions::new().tool_prefix("time").timeout(Duration::from_secs(10));
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct McpOptions {
    pub(super) prefix: Option<String>,
    pub(super) timeout: Duration,
    pub(super) max_text: usize,
    pub(super) max_binary: usize,
    pub(super) trusted: bool,
    headers: Vec<(String, SecretString)>,
}

impl Default for McpOptions {
    fn default() -> Self {
        Self {
            prefix: None,
            timeout: Duration::from_secs(60),
            max_text: 100_000,
            max_binary: 8 << 20,
            trusted: false,
            headers: Vec::new(),
        }
    }
}

impl McpOptions {
    /// Creates options with the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `prefix` and an underscore before the name of each tool, so that tools of different servers do not collide.
    pub fn tool_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Sets the maximum duration of connecting and of each request. The default is 60 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum number of characters of text in a tool result, a resource or a prompt. Longer text is
    /// truncated, with a note. The default is 100,000.
    pub fn max_text(mut self, characters: usize) -> Self {
        self.max_text = characters;
        self
    }

    /// Sets the maximum number of base64 bytes of images, audio and files in a tool result, a resource or a prompt.
    /// Larger data is replaced with a note. The default is 8 MiB.
    pub fn max_binary(mut self, bytes: usize) -> Self {
        self.max_binary = bytes;
        self
    }

    /// Does not mark tool results, resources and prompts as untrusted data. Use it only for a server whose instructions
    /// the model may follow, such as your own.
    pub fn trusted(mut self) -> Self {
        self.trusted = true;
        self
    }

    /// Adds a header to each HTTP request. The value is treated as a secret.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<SecretString>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends this token in the header `Authorization` of each HTTP request.
    pub fn bearer_token(self, token: impl Into<SecretString>) -> Self {
        let value = format!("Bearer {}", token.into().expose_secret());
        self.header("authorization", value)
    }

    /// Returns the headers of HTTP requests. Of several headers with the same name, the first one is sent.
    pub(super) fn header_map(&self) -> Result<HashMap<HeaderName, HeaderValue>, McpError> {
        let mut headers = HashMap::new();
        for (name, value) in &self.headers {
            let invalid = || McpError::Header(name.clone());
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
            let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.entry(key).or_insert(value);
        }
        Ok(headers)
    }
}
