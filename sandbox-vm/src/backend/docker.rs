//! The Docker back end.

mod container;
pub(crate) mod engine;
mod handle;
mod image;
mod stream;

use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use bollard::{
    Docker as Engine,
    models::SystemInfo,
    query_parameters::{AttachContainerOptionsBuilder, CreateContainerOptionsBuilder},
};
use tokio::sync::OnceCell;

use self::{
    engine::{ENGINE_TIMEOUT, connect, start_error},
    handle::DockerHandle,
};
use super::{
    interface::{Backend, Guest},
    names::DOCKER as NAME,
    probe::start_and_stop,
};
use crate::{
    Error,
    report::{Guarantee, Report},
    sandbox_dir::{CONTAINER_PREFIX, Leftover, SandboxDir},
    spec::{Image, Spec},
};

/// Address of the Docker engine if neither `DOCKER_HOST` nor the application specifies another one.
const DEFAULT_SOCKET: &str = "unix:///var/run/docker.sock";

/// The Docker back end. Each guest is a container, which is created through the API of a running Docker engine.
///
/// The container has no network, a read-only root directory, and limits on memory, processes and processor share. It
/// has no capabilities and no way to gain any. It can write to two in-memory file systems: `/workspace`, which gets
/// three quarters of the sandbox's disk limit, and `/tmp`, which gets the remaining quarter. The agent applies the same
/// restrictions to itself as in the [jail](super::Jail) and serves requests on its standard input and output, which the
/// engine forwards.
///
/// [`Image::Base`] contains only the agent. It is imported into the engine when it is first needed, under a name
/// derived from its content, and stays there for later starts. It can be removed with `docker image rm`. The
/// application has to provide any other image, with its agent at `/agent` and with the directories `/workspace` and
/// `/tmp`. The Python image has the name `agent-sandbox-python:latest`. To create it, build the program with `-C
/// target-feature=+crt-static`, save it as `agent` next to the following `Dockerfile`, and run `docker build -t
/// agent-sandbox-python:latest .`:
///
/// ```dockerfile
/// FROM python:3.13-slim
/// COPY agent /agent
/// RUN mkdir -p /workspace
/// ```
///
/// The test suite runs on this back end if an engine is reachable, and reports that it was skipped otherwise. It has
/// passed with Docker 20.10. The probe report lists only guarantees that this module requests from the engine, and
/// leaves out those that the engine does not report as supported.
#[derive(Clone, Debug)]
pub struct Docker {
    agent: PathBuf,
    host: String,
    /// Name of the image that contains only the agent. Set once the engine has the image.
    base: Arc<OnceCell<String>>,
}

impl Docker {
    /// Creates a back end that uses `program` as the agent in its base image. The program has to be statically linked
    /// and call [`guest::enter`](crate::guest::enter) before anything else.
    ///
    /// The environment variable `DOCKER_HOST` specifies the engine's socket. If the variable is not set, the back end
    /// connects to the default socket.
    pub fn agent(program: impl Into<PathBuf>) -> Self {
        let host = env::var("DOCKER_HOST").unwrap_or_else(|_| DEFAULT_SOCKET.to_owned());
        Self { agent: program.into(), host, base: Arc::default() }
    }

    /// Creates a back end that uses the current program as the agent in its base image. The program has to be
    /// statically linked and call [`guest::enter`](crate::guest::enter) before anything else.
    pub fn this_program() -> Self {
        Self::agent("/proc/self/exe")
    }

    /// Uses the engine that listens on this socket.
    pub fn socket(self, path: impl AsRef<Path>) -> Self {
        Self { host: format!("unix://{}", path.as_ref().display()), ..Self::agent(self.agent) }
    }

    fn engine(&self) -> Result<Engine, Error> {
        connect(&self.host).map_err(start_error)
    }

    /// Returns the name of an image in the engine. The base image, which contains only the agent, is imported first if
    /// it is missing. The application has to provide any other image, with its agent at `/agent`.
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
                let advice = "install Docker (`apt-get install docker.io`), start an engine that this user may use, and set \
                              DOCKER_HOST to its socket";
                return Report::unavailable(NAME, error.to_string()).with_advice(advice);
            }
        };
        match start_and_stop(self, "probe-docker", ENGINE_TIMEOUT).await {
            Err(error) => Report::unavailable(NAME, error.to_string()),
            Ok(()) => Report::available(NAME, guarantees(&info)),
        }
    }

    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error> {
        let engine = self.engine()?;
        let image = self.image(&engine, &spec.image).await?;
        let body = container::create_body(spec, sandbox_dir.id(), image)?;
        let name = format!("{CONTAINER_PREFIX}{}", sandbox_dir.id());
        // If the host process dies, the agent exits by itself, but its container remains. Once the container is
        // recorded here, it is removed together with the sandbox directory.
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

/// Returns the guarantees of a container. Limits that the engine does not report as supported are left out.
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

/// Converts the error of a failed container creation. Replaces the engine's message about a missing image with
/// instructions for building the image.
fn creation_error(error: bollard::errors::Error, image: &Image) -> Error {
    match error {
        bollard::errors::Error::DockerResponseServerError { status_code: 404, .. } => {
            let problem = format!(
                "the engine has no image `{image}`; build it with this program as `/agent`, as shown in the documentation \
                 of `sandbox_vm::backend::Docker`"
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
    fn missing_image_error_says_how_to_build_it() {
        let message_for = |status_code| {
            let message = "No such image".to_owned();
            let error = bollard::errors::Error::DockerResponseServerError { status_code, message };
            creation_error(error, &Image::Python).to_string()
        };
        assert!(message_for(404).contains("no image `agent-sandbox-python:latest`; build it"));
        assert!(!message_for(500).contains("build it"));
    }
}
