//! Runs a case on a separate OS thread, so that a panic or an endless loop does not affect the caller.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use crate::{
    build::Mode,
    case::Case,
    saver::{SaverError, SaverKind},
    script::{self, Answers, Execution},
};

/// Time after which a case is aborted.
const CASE_TIMEOUT: Duration = Duration::from_secs(300);

/// The error returned when a case produces no answers.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The saver could not be opened.
    #[error("not run: {0}")]
    NoSaver(#[from] SaverError),
    /// The case timed out.
    #[error("timed out after {CASE_TIMEOUT:?}")]
    TimedOut,
    /// The engine or the driver panicked.
    #[error("panicked")]
    Panicked,
}

/// Runs a case with a new saver.
pub(crate) fn run(
    case: &Case,
    saver: SaverKind,
    mode: Mode,
    execution: &Execution,
) -> Result<Answers, CaseError> {
    let (case, execution) = (case.clone(), execution.clone());
    on_thread(move || async move {
        let saver = saver.open().await?;
        Ok(script::answers(&case, &saver.checkpointer, mode, &execution).await)
    })?
}

/// Runs the future of a case on a new OS thread.
pub(crate) fn on_thread<T: Send + 'static, F: Future<Output = T>>(
    start: impl FnOnce() -> F + Send + 'static,
) -> Result<T, CaseError> {
    let (sender, output) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the process can open a file descriptor for the runtime");
        // Ignore the error, because the receiver has been dropped if the case has timed out.
        let _ = sender.send(runtime.block_on(start()));
    });
    match output.recv_timeout(CASE_TIMEOUT) {
        Ok(output) => Ok(output),
        Err(RecvTimeoutError::Timeout) => Err(CaseError::TimedOut),
        Err(RecvTimeoutError::Disconnected) => Err(CaseError::Panicked),
    }
}
