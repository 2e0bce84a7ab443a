//! Closes connections whose clients do not read responses.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A stream whose writes fail with `TimedOut` if the client has accepted no bytes for `timeout`. Idle connections
/// without pending output are not affected; the header timeout covers them.
#[derive(Debug)]
pub(super) struct WriteTimeout<S> {
    stream: S,
    timeout: Duration,
    /// Timer that runs while a write is pending.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncWrite + Unpin> WriteTimeout<S> {
    pub(super) fn new(stream: S, timeout: Duration) -> Self {
        Self { stream, timeout, timer: None }
    }

    /// Polls a write and fails if it has been pending for longer than the timeout.
    fn poll_with_timeout<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.stream), context) {
            self.timer = None;
            return Poll::Ready(written);
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.timeout)));
        ready!(timer.as_mut().poll(context));
        let message = "the client does not read the response";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_with_timeout(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_with_timeout(context, |stream, context| {
            stream.poll_write_vectored(context, parts)
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_with_timeout(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_with_timeout(context, |stream, context| stream.poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        time::{Instant, sleep},
    };

    use super::WriteTimeout;

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn writes_time_out_if_the_client_reads_nothing() {
        let (server, _client) = duplex(8);
        let mut server = WriteTimeout::new(server, TIMEOUT);
        let begun = Instant::now();
        let error = server.write_all(&[0; 9]).await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed()), (std::io::ErrorKind::TimedOut, TIMEOUT));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_clients_and_idle_connections_do_not_time_out() {
        let (server, mut client) = duplex(8);
        let mut server = WriteTimeout::new(server, TIMEOUT);
        let reader = tokio::spawn(async move {
            let mut read = 0;
            while let Ok(1..) = client.read(&mut [0; 8]).await {
                read += 8;
                sleep(TIMEOUT / 2).await;
            }
            read
        });
        server.write_all(&[0; 64]).await.unwrap();
        sleep(10 * TIMEOUT).await;
        server.write_all(&[0; 8]).await.unwrap();
        drop(server);
        assert_eq!(reader.await.unwrap(), 72);
    }
}
