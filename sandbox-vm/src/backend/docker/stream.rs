//! Turns a container's standard input and output into a channel, and captures its standard error separately.

use std::future::poll_fn;

use bollard::container::{AttachContainerResults, LogOutput};
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};

use crate::backend::diagnostics::Diagnostics;

const BUFFER: usize = 1 << 20;

/// Connects the streams that the engine has attached. The connection closes when either side closes its end.
pub(super) fn connect(attached: AttachContainerResults) -> (DuplexStream, Diagnostics) {
    let (host_side, engine_side) = duplex(BUFFER);
    let (error, diagnostics) = duplex(BUFFER);
    let (from_host, to_host) = split(engine_side);
    let AttachContainerResults { output, input } = attached;
    tokio::spawn(async move {
        tokio::select! {
            () = forward_input(from_host, input) => {}
            () = forward_output(output, to_host, error) => {}
        }
    });
    (host_side, Diagnostics::capture(diagnostics))
}

async fn forward_input(
    mut from: ReadHalf<DuplexStream>,
    mut to: std::pin::Pin<Box<dyn tokio::io::AsyncWrite + Send>>,
) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

async fn forward_output(
    mut output: Output,
    mut to: WriteHalf<DuplexStream>,
    mut error: DuplexStream,
) {
    while let Some(Ok(part)) = poll_fn(|cx| output.as_mut().poll_next(cx)).await {
        let sent = match part {
            LogOutput::StdOut { message } => to.write_all(&message).await,
            LogOutput::StdErr { message } | LogOutput::Console { message } => {
                error.write_all(&message).await
            }
            LogOutput::StdIn { .. } => Ok(()),
        };
        if sent.is_err() {
            return;
        }
    }
}

type Output = std::pin::Pin<
    Box<dyn futures_core::Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>,
>;
