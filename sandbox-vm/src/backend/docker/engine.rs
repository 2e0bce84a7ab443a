//! The connection to a Docker engine, and the removal of containers through it.

use std::time::{Duration, Instant};

use bollard::{
    Docker as Engine, errors::Error as EngineError, query_parameters::RemoveContainerOptionsBuilder,
};

use crate::{Error, backend::names::DOCKER};

pub(super) const ENGINE_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn connect(host: &str) -> Result<Engine, EngineError> {
    Ok(Engine::connect_with_host(host)?.with_timeout(ENGINE_TIMEOUT))
}

/// Removes a container that no longer has a handle. Returns `false` if the removal failed.
///
/// If the engine does not know the container, the engine may still be creating it, so this function retries until
/// `grace` has elapsed.
pub(crate) fn remove_leftover(host: &str, name: &str, grace: Duration) -> bool {
    let deadline = Instant::now() + grace;
    let work = async {
        let engine = connect(host)?;
        loop {
            let was_there = remove(&engine, name).await?;
            if was_there || Instant::now() >= deadline {
                return Ok::<_, EngineError>(());
            }
            tokio::time::sleep(grace / 10).await;
        }
    };
    let run = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(work)?)
    };
    // Use a separate OS thread, because the caller may be a task on another tokio runtime, and a runtime's thread
    // cannot block on a second runtime.
    let removed = std::thread::scope(|it| it.spawn(run).join());
    match removed {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::warn!(host, name, %error, "cannot remove a container");
            false
        }
        Err(_) => false,
    }
}

/// Removes a container and returns whether it existed.
pub(super) async fn remove(engine: &Engine, name: &str) -> Result<bool, EngineError> {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    match engine.remove_container(name, Some(options)).await {
        Ok(()) => Ok(true),
        Err(EngineError::DockerResponseServerError { status_code: 404, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` passes the error by value")]
pub(super) fn start_error(error: EngineError) -> Error {
    Error::Start { backend: DOCKER, problem: error.to_string() }
}
