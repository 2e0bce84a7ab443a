//! Errors of MCP connections.

use std::time::Duration;

/// An operation on an MCP connection that failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The program of a server cannot be started.
    #[error("cannot start the MCP server `{program}`: {source}; install it or correct the command")]
    Start {
        /// Name of the program.
        program: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The address of a server is invalid.
    #[error("the address of the MCP server is invalid: {0}; use an http or https URL")]
    Address(String),
    /// An HTTP header is invalid.
    #[error(
        "the HTTP header `{0}` has an invalid name or value; use only characters that HTTP allows"
    )]
    Header(String),
    /// The connection cannot be established.
    #[error(
        "cannot connect to the MCP server `{server}`: {reason}; check that it is running and supports MCP"
    )]
    Connect {
        /// Name of the server.
        server: String,
        /// The cause.
        reason: String,
    },
    /// A request failed.
    #[error("the MCP server `{server}` failed to answer `{request}`: {reason}")]
    Request {
        /// Name of the server.
        server: String,
        /// Method of the request.
        request: &'static str,
        /// The cause.
        reason: String,
    },
    /// A server did not answer in time.
    #[error(
        "the MCP server `{server}` did not answer `{request}` within {limit:?}; set a longer timeout with \
         `McpOptions::timeout`"
    )]
    Timeout {
        /// Name of the server.
        server: String,
        /// Method of the request.
        request: &'static str,
        /// The timeout.
        limit: Duration,
    },
    /// A server lists more entries than the client accepts.
    #[error(
        "the MCP server `{server}` lists more than {limit} entries for `{request}`, the maximum that the client \
         accepts"
    )]
    TooMany {
        /// Name of the server.
        server: String,
        /// Method of the request.
        request: &'static str,
        /// Maximum number of entries.
        limit: usize,
    },
    /// Two tools of a server have the same name after conversion to a name that models accept.
    #[error(
        "the MCP server `{server}` has two tools whose names become `{name}`; rename one of them"
    )]
    DuplicateTool {
        /// Name of the server.
        server: String,
        /// The name.
        name: String,
    },
    /// An agent could not be served over MCP.
    #[error("cannot serve the agent over MCP: {0}")]
    Serve(String),
}

graph_core::readable_debug!(McpError);
