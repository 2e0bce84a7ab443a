//! Docker: a guest is a container of an engine that runs already, asked for over the engine's API.
//!
//! The container has no network, a root that is read-only, no capabilities and no way to get any, limits on memory,
//! processes and processor share, and two memory file systems to write to: `/workspace` has three quarters of the
//! sandbox's disk, and `/tmp` the rest. The agent closes the same doors behind itself as in the [jail](super::jail), and
//! serves on its standard input and output, which the engine passes on.
//!
//! [`Image::Base`] holds the agent and nothing else. It is brought to the engine when it is first needed, under a name
//! that is made from its content, and stays there for the next start: `docker image rm` removes it. Any other image is
//! the application's, with its agent in it as `/agent` and folders `/workspace` and `/tmp`; the one for Python has the
//! name `agent-sandbox-python:latest`. A file like this makes it, beside a program that is built with
//! `-C target-feature=+crt-static`, by `docker build -t agent-sandbox-python:latest .`:
//!
//! ```dockerfile
//! FROM python:3.13-slim
//! COPY agent /agent
//! RUN mkdir -p /workspace
//! ```
//!
//! The suite runs on this back end where an engine answers, and says so where none does; it was seen to pass with Docker
//! 20.10. The report claims no more than what the engine is asked for, and says where the engine answers that it cannot
//! do it.

mod container;
mod handle;
mod image;
mod stream;

use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bollard::{
    Docker as Engine,
    models::SystemInfo,
    query_parameters::{AttachContainerOptionsBuilder, CreateContainerOptionsBuilder},
};
use tokio::sync::OnceCell;

use self::handle::DockerHandle;
use super::{Backend, Guest};
use crate::{
    Error,
    report::{Guarantee, Report},
    sandbox_dir::{CONTAINER_PREFIX, Leftover, SandboxDir},
    spec::{Image, Spec},
};

const NAME: &str = "docker";

/// Where an engine listens unless it is said.
const DEFAULT_SOCKET: &str = "unix:///var/run/docker.sock";

/// How long the engine has for an answer.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(30);

/// Docker as a back end.
#[derive(Clone, Debug)]
pub struct Docker {
    agent: PathBuf,
    host: String,
    /// The image that holds the agent, once the engine has it.
    base: Arc<OnceCell<String>>,
}

impl Docker {
    /// Containers whose only program is this one: static, and calling [`guest::enter`](crate::guest::enter) first.
    ///
    /// The engine is the one that the variable `DOCKER_HOST` names, by its socket, or the usual one.
    pub fn agent(program: impl Into<PathBuf>) -> Self {
        let host = env::var("DOCKER_HOST").unwrap_or_else(|_| DEFAULT_SOCKET.to_owned());
        Self { agent: program.into(), host, base: Arc::default() }
    }

    /// Containers whose only program is the one that runs now: static, and calling
    /// [`guest::enter`](crate::guest::enter) first.
    pub fn this_program() -> Self {
        Self::agent("/proc/self/exe")
    }

    /// Asks the engine that listens on this socket.
    pub fn socket(self, path: impl AsRef<Path>) -> Self {
        Self { host: format!("unix://{}", path.as_ref().display()), ..Self::agent(self.agent) }
    }

    fn engine(&self) -> Result<Engine, Error> {
        connect(&self.host).map_err(start_error)
    }

    /// The name of an image in the engine. The one with the agent alone is brought there first; any other is the
    /// application's, which has put its agent into it as `/agent`.
    async fn image(&self, engine: &Engine, image: &Image) -> Result<String, Error> {
        match image {
            Image::Base => {
                let name =
                    self.base.get_or_try_init(|| image::import_if_missing(engine, &self.agent));
                name.await.cloned()
            }
            Image::Python | Image::Named(_) => Ok(image.to_string()),
        }
    }
}

#[async_trait]
impl Backend for Docker {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn probe(&self) -> Report {
        let info = match self.engine() {
            Ok(engine) => engine.info().await.map_err(start_error),
            Err(error) => Err(error),
        };
        let info = match info {
            Ok(info) => info,
            Err(error) => {
                let advice = "start an engine that this user may use, and let DOCKER_HOST name its socket: \
                              apt-get install docker.io";
                return Report::unavailable(NAME, error.to_string()).with_advice(advice);
            }
        };
        match super::start_and_stop(self, "probe-docker", ENGINE_TIMEOUT).await {
            Err(error) => Report::unavailable(NAME, error.to_string()),
            Ok(()) => Report::available(NAME, guarantees(&info)),
        }
    }

    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error> {
        let engine = self.engine()?;
        let image = self.image(&engine, &spec.image).await?;
        let body = container::create_body(spec, sandbox_dir.id(), image)?;
        let name = format!("{CONTAINER_PREFIX}{}", sandbox_dir.id());
        // An agent whose host is gone ends by itself; its container stays. From here on it is removed with the sandbox directory.
        let container = Leftover::Container { host: self.host.clone(), name: name.clone() };
        sandbox_dir.record_leftovers(container.clone())?;
        let mut handle =
            DockerHandle::new(engine.clone(), name.clone(), (sandbox_dir.leftovers(), container));
        let named = CreateContainerOptionsBuilder::default().name(&name).build();
        let failed = |error| creation_error(error, &spec.image);
        engine.create_container(Some(named), body).await.map_err(failed)?;
        let all = AttachContainerOptionsBuilder::default().stream(true);
        let all = all.stdin(true).stdout(true).stderr(true).build();
        let attached = engine.attach_container(&name, Some(all)).await.map_err(start_error)?;
        let (channel, diagnostics) = stream::connect(attached);
        handle.set_diagnostics(diagnostics);
        engine.start_container(&name, None).await.map_err(start_error)?;
        Ok(Guest { channel: Box::new(channel), handle: Arc::new(handle) })
    }
}

fn connect(host: &str) -> Result<Engine, bollard::errors::Error> {
    Ok(Engine::connect_with_host(host)?.with_timeout(ENGINE_TIMEOUT))
}

/// Removes a container that has no handle any more, and says whether it is gone.
///
/// One that the engine does not know may still be about to be made by it; for so long it is asked for again.
pub(crate) fn remove_leftover(host: &str, name: &str, grace: Duration) -> bool {
    let deadline = Instant::now() + grace;
    let work = async {
        let engine = connect(host)?;
        loop {
            let was_there = handle::remove(&engine, name).await?;
            if was_there || Instant::now() >= deadline {
                return Ok::<_, bollard::errors::Error>(());
            }
            tokio::time::sleep(grace / 10).await;
        }
    };
    let run = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(work)?)
    };
    // In a thread of its own: whoever asks may be a task of another runtime.
    let removed = std::thread::scope(|it| it.spawn(run).join());
    match removed {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::warn!(host, name, %error, "a container stays behind");
            false
        }
        Err(_) => false,
    }
}

/// What holds, as far as the engine says that it does what it is asked for.
fn guarantees(info: &SystemInfo) -> Vec<Guarantee> {
    let mut guarantees = vec![
        Guarantee::Programs,
        Guarantee::NoNetwork,
        Guarantee::NoHostFiles,
        Guarantee::OwnProcesses,
        Guarantee::NoPrivileges,
        Guarantee::FilteredCalls,
        Guarantee::DiskLimit,
        Guarantee::Pause,
        Guarantee::SharedDirectories,
    ];
    let reported = |it: Option<bool>| it == Some(true);
    guarantees.extend(reported(info.memory_limit).then_some(Guarantee::MemoryLimit));
    guarantees.extend(reported(info.cpu_cfs_quota).then_some(Guarantee::CpuShare));
    guarantees.extend(reported(info.pids_limit).then_some(Guarantee::ProcessLimit));
    guarantees
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn start_error(error: bollard::errors::Error) -> Error {
    Error::Start { backend: NAME, problem: error.to_string() }
}

/// Why there is no container. What an engine says of an image that it does not have does not help.
fn creation_error(error: bollard::errors::Error, image: &Image) -> Error {
    match error {
        bollard::errors::Error::DockerResponseServerError { status_code: 404, .. } => {
            let problem = format!(
                "the engine has no image `{image}`; build it with this program in it as `/agent`, as the documentation \
                 of `sandbox_vm::backend::docker` shows"
            );
            Error::Start { backend: NAME, problem }
        }
        error => start_error(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{Image, creation_error};

    #[test]
    fn an_image_that_is_not_there_is_named_with_what_to_do() {
        let said = |status_code| {
            let message = "No such image".to_owned();
            let error = bollard::errors::Error::DockerResponseServerError { status_code, message };
            creation_error(error, &Image::Python).to_string()
        };
        assert!(said(404).contains("no image `agent-sandbox-python:latest`; build it"));
        assert!(!said(500).contains("build it"));
    }
}
