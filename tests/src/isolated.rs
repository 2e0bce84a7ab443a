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
const CASE_TIMEOUT: Duration = Duration::from_secs(120);

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
    let (sender, answers) = mpsc::channel();
    let (case, execution) = (case.clone(), execution.clone());
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the process can open a file descriptor for the runtime");
        let answers = runtime.block_on(async {
            let saver = saver.open().await?;
            Ok(script::answers(&case, &saver.checkpointer, mode, &execution).await)
        });
        // Ignore the error, because the receiver has been dropped if the case has timed out.
        let _ = sender.send(answers);
    });
    match answers.recv_timeout(CASE_TIMEOUT) {
        Ok(answers) => answers,
        Err(RecvTimeoutError::Timeout) => Err(CaseError::TimedOut),
        Err(RecvTimeoutError::Disconnected) => Err(CaseError::Panicked),
    }
}
