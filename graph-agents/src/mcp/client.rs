//! A connection to an MCP server.

use std::{fmt, future::Future, sync::Arc};

use reqwest::Url;
use rmcp::{
    RoleClient, ServiceExt,
    model::{
        ClientConfig, GetPromptRequestParams, PaginatedRequestParams, Prompt,
        ReadResourceRequestParams, Resource, ResourceContents, Role,
    },
    service::{RunningService, ServiceError},
    transport::{
        IntoTransport, StreamableHttpClientTransport, TokioChildProcess,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Map, Value};
use tokio::{process::Command, time};

use super::{content, error::McpError, options::McpOptions};
use crate::{Content, Message, tool::truncate};

/// Environment variables that the process of a server inherits.
const INHERITED: [&str; 8] = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];

/// Maximum number of tools, resources or prompts of a server.
const MAX_ENTRIES: usize = 1_000;

/// A connection to an MCP server. Cheap to clone.
///
/// The connection closes, and the process of the server ends, when the client and all tools from
/// [`tools`](Self::tools) are dropped.
///
/// ```
/// use graph_agents::{
///     Agent, AiMessage, ScriptedModel,
///     mcp::{AgentServer, McpClient, McpOptions},
/// };
/// use tokio::net::TcpListener;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A server on this machine. Most servers are other programs: see `McpClient::stdio`.
/// let weather = Agent::new(ScriptedModel::new([AiMessage::new("Rain.")])).name("weather").compile()?;
/// let server = AgentServer::new(weather, "Answers questions about the weather.");
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let url = format!("http://{}/mcp", listener.local_addr()?);
/// tokio::spawn(async move { axum::serve(listener, server.router()).await });
///
/// let client = McpClient::http(&url, McpOptions::new()).await?;
/// // Pass the tools to `Agent::tools`.
/// let tools = client.tools().await?;
/// assert_eq!(tools[0].name(), "weather");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct McpClient {
    pub(super) server: Arc<str>,
    pub(super) options: McpOptions,
    pub(super) connection: Arc<RunningService<RoleClient, ClientConfig>>,
    address: Address,
}

/// Address of a server that is connected over HTTP. It may contain a secret, so errors must not show it.
#[derive(Clone, Default)]
struct Address(Option<Arc<str>>);

impl Address {
    /// Returns the text of an error without the address.
    fn without(&self, error: &impl fmt::Display) -> String {
        let text = error.to_string();
        match &self.0 {
            Some(address) => text.replace(&**address, "[address]"),
            None => text,
        }
    }
}

impl McpClient {
    /// Starts a server as a child process and connects to it over the process's standard input and output.
    ///
    /// The process inherits only a few variables of this program's environment, such as `PATH`, so that it cannot read
    /// API keys. Set other variables with [`Command::env`]. Its standard error is that of this program.
    pub async fn stdio(mut command: Command, options: McpOptions) -> Result<Self, McpError> {
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        restrict_environment(&mut command);
        command.kill_on_drop(true);
        let process = TokioChildProcess::new(command)
            .map_err(|source| McpError::Start { program: program.clone(), source })?;
        Self::connect(program, process, options).await
    }

    /// Connects to a server over streamable HTTP. Redirects are not followed.
    pub async fn http(url: &str, options: McpOptions) -> Result<Self, McpError> {
        let address = Url::parse(url).map_err(|error| McpError::Address(error.to_string()))?;
        if !["http", "https"].contains(&address.scheme()) {
            return Err(McpError::Address(format!("`{}` is not supported", address.scheme())));
        }
        let server = address.host_str().unwrap_or("server").to_owned();
        let client = llm::http_client(&address).map_err(|error| McpError::Connect {
            server: server.clone(),
            reason: error.to_string(),
        })?;
        let mut config = StreamableHttpClientTransportConfig::with_uri(url);
        config.custom_headers = options.header_map()?;
        let transport = StreamableHttpClientTransport::with_client(client, config);
        Self::open(server.into(), Address(Some(address.as_str().into())), transport, options).await
    }

    /// Connects to a server over any transport of the crate `rmcp`. `server` is the name in error messages.
    pub async fn connect<T, E, A>(
        server: impl Into<String>,
        transport: T,
        options: McpOptions,
    ) -> Result<Self, McpError>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        Self::open(server.into().into(), Address::default(), transport, options).await
    }

    async fn open<T, E, A>(
        server: Arc<str>,
        address: Address,
        transport: T,
        options: McpOptions,
    ) -> Result<Self, McpError>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let mut config = ClientConfig::default();
        config.client_info.name = env!("CARGO_PKG_NAME").to_owned();
        config.client_info.version = env!("CARGO_PKG_VERSION").to_owned();
        let connecting = time::timeout(options.timeout, config.serve(transport)).await;
        let connected = connecting.map_err(|_| McpError::Timeout {
            server: server.to_string(),
            request: "initialize",
            limit: options.timeout,
        })?;
        let connection = connected.map_err(|error| McpError::Connect {
            server: server.to_string(),
            reason: address.without(&error),
        })?;
        Ok(Self { server, options, connection: Arc::new(connection), address })
    }

    /// Returns the server's resources.
    pub async fn resources(&self) -> Result<Vec<Resource>, McpError> {
        let list = async |page| {
            let page = self.connection.list_resources(Some(page)).await?;
            Ok((page.resources, page.next_cursor))
        };
        self.list("resources/list", list).await
    }

    /// Reads a resource. Its size is limited, and its texts are marked as untrusted data, unless the server is
    /// [trusted](McpOptions::trusted).
    pub async fn read_resource(
        &self,
        uri: impl Into<String>,
    ) -> Result<Vec<ResourceContents>, McpError> {
        let request = ReadResourceRequestParams::new(uri);
        let reading = self.connection.read_resource(request);
        let contents = self.request("resources/read", reading).await?.contents;
        Ok(content::resource(contents, &self.options))
    }

    /// Returns the server's prompts.
    pub async fn prompts(&self) -> Result<Vec<Prompt>, McpError> {
        let list = async |page| {
            let page = self.connection.list_prompts(Some(page)).await?;
            Ok((page.prompts, page.next_cursor))
        };
        self.list("prompts/list", list).await
    }

    /// Returns the messages of a prompt with these arguments. Their size is limited, and their texts are marked as
    /// untrusted data, unless the server is [trusted](McpOptions::trusted).
    pub async fn prompt(
        &self,
        name: impl Into<String>,
        arguments: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Vec<Message>, McpError> {
        let arguments: Map<_, _> =
            arguments.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
        let request = GetPromptRequestParams::new(name).with_arguments(arguments);
        let prompt = self.request("prompts/get", self.connection.get_prompt(request)).await?;
        let (roles, contents): (Vec<_>, Vec<_>) =
            prompt.messages.into_iter().map(|it| (it.role, it.content)).unzip();
        let contents = content::prompt(contents, &self.options);
        let message = |(role, content): (Role, Content)| match role {
            Role::Assistant => Message::ai(content),
            _ => Message::human(content),
        };
        Ok(roles.into_iter().zip(contents).map(message).collect())
    }

    /// Returns all entries of a list that the server returns page by page.
    pub(super) async fn list<T>(
        &self,
        method: &'static str,
        mut page: impl AsyncFnMut(
            PaginatedRequestParams,
        ) -> Result<(Vec<T>, Option<String>), ServiceError>,
    ) -> Result<Vec<T>, McpError> {
        let mut entries = Vec::new();
        let mut cursor = None;
        loop {
            let request = PaginatedRequestParams::default().with_cursor(cursor);
            let (new, next) = self.request(method, page(request)).await?;
            // An empty page ends the list, because a server could send empty pages forever.
            let is_last = next.is_none() || new.is_empty();
            entries.extend(new);
            if entries.len() > MAX_ENTRIES {
                let (server, limit) = (self.server.to_string(), MAX_ENTRIES);
                return Err(McpError::TooMany { server, request: method, limit });
            }
            if is_last {
                return Ok(entries);
            }
            cursor = next;
        }
    }

    async fn request<T>(
        &self,
        method: &'static str,
        answer: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, McpError> {
        let (server, limit) = (|| self.server.to_string(), self.options.timeout);
        match time::timeout(limit, answer).await {
            Err(_) => Err(McpError::Timeout { server: server(), request: method, limit }),
            Ok(answer) => answer.map_err(|error| McpError::Request {
                server: server(),
                request: method,
                reason: self.error_text(&error),
            }),
        }
    }

    /// Returns the text of an error without the address of the server, truncated to a maximum length.
    pub(super) fn error_text(&self, error: &ServiceError) -> String {
        truncate(self.address.without(error).into(), self.options.max_text).text()
    }
}

/// Removes the variables that the child process would inherit, except for the listed and the explicitly set ones.
fn restrict_environment(command: &mut Command) {
    let set: Vec<_> = command
        .as_std()
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    let inherited = INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.env_clear().envs(inherited).envs(set);
}

impl fmt::Debug for McpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClient")
            .field("server", &self.server)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
