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

/// Number of bytes of a pending response that a client must accept in each period of the timeout. A client that reads
/// a few bytes at a time would otherwise occupy its connection for hours.
const MIN_BYTES: usize = 16 << 10;

/// A stream whose writes fail with `TimedOut` if output is pending and the client has accepted less than [`MIN_BYTES`]
/// for `timeout`. Connections without pending output are not affected; the header timeout covers them.
#[derive(Debug)]
pub(super) struct WriteTimeout<S> {
    stream: S,
    timeout: Duration,
    /// Timer that runs while output is pending.
    timer: Option<Pin<Box<Sleep>>>,
    /// Number of bytes that the client has accepted since the timer was started.
    accepted: usize,
}

impl<S: AsyncWrite + Unpin> WriteTimeout<S> {
    pub(super) fn new(stream: S, timeout: Duration) -> Self {
        Self { stream, timeout, timer: None, accepted: 0 }
    }

    /// Polls a write of `len` bytes. See [`poll_with_timeout`](Self::poll_with_timeout).
    fn poll_write_of(
        &mut self,
        len: usize,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let written = ready!(self.poll_with_timeout(context, write));
        if let Ok(count) = written {
            self.accepted = self.accepted.saturating_add(count);
            if count == len || self.accepted >= MIN_BYTES {
                self.timer = None;
            }
        }
        Poll::Ready(written)
    }

    /// Polls an operation and fails if it is pending when the time is up.
    fn poll_with_timeout<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.stream), context) {
            return Poll::Ready(written);
        }
        if self.timer.is_none() {
            self.accepted = 0;
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
        self.poll_write_of(bytes.len(), context, |stream, context| {
            stream.poll_write(context, bytes)
        })
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = parts.iter().map(|it| it.len()).sum();
        self.poll_write_of(len, context, |stream, context| {
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
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
        time::{Instant, sleep},
    };

    use super::{MIN_BYTES, WriteTimeout};

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn writes_time_out_if_the_client_reads_nothing() {
        let (server, _client) = duplex(8);
        let mut server = WriteTimeout::new(server, TIMEOUT);
        let begun = Instant::now();
        let error = server.write_all(&[0; 9]).await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed()), (std::io::ErrorKind::TimedOut, TIMEOUT));
    }

    /// Reads pieces of the given size, with a pause of half the timeout after each. Returns the number of bytes.
    async fn read_slowly(mut client: DuplexStream, piece: usize) -> usize {
        let (mut read, mut buffer) = (0, vec![0; piece]);
        while let Ok(count @ 1..) = client.read(&mut buffer).await {
            read += count;
            sleep(TIMEOUT / 2).await;
        }
        read
    }

    #[tokio::test(start_paused = true)]
    async fn slow_clients_and_idle_connections_do_not_time_out() {
        let (server, client) = duplex(MIN_BYTES);
        let mut server = WriteTimeout::new(server, TIMEOUT);
        let reader = tokio::spawn(read_slowly(client, MIN_BYTES));
        server.write_all(&[0; 8 * MIN_BYTES]).await.unwrap();
        sleep(10 * TIMEOUT).await;
        server.write_all(&[0; 8]).await.unwrap();
        drop(server);
        assert_eq!(reader.await.unwrap(), 8 * MIN_BYTES + 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_a_few_bytes_at_a_time_times_out() {
        let (server, client) = duplex(8);
        let mut server = WriteTimeout::new(server, TIMEOUT);
        let reader = tokio::spawn(read_slowly(client, 8));
        let error = server.write_all(&[0; MIN_BYTES]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        drop(server);
        assert!(reader.await.unwrap() < 64);
    }
}
