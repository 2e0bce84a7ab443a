//! Streamed responses.

use std::{
    collections::VecDeque,
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use futures_core::Stream;

use crate::{Error, Listener, Llm, Model, Piece, Request, Response, lock::lock};

/// A response that is still arriving, as a stream of pieces. The whole response is available at the end of the stream.
///
/// The call runs only while the stream is polled, so a slow reader slows the provider down. Dropping the stream
/// cancels the call. Until the stream is read to its end or dropped, it holds its slot in a [rate
/// limiter](Llm::rate_limit) and its reservation in a [budget](Llm::budget). A stream that is neither polled nor
/// dropped can therefore block other calls forever.
///
/// ```
/// use llm::{Llm, Piece, Scripted};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let llm = Llm::new(Scripted::new("parrot", |_| "Because of the air."));
/// let mut stream = llm.stream("Why is the sky blue?");
/// while let Some(piece) = stream.next().await {
///     if let Piece::Text(text) = piece {
///         print!("{text}");
///     }
/// }
/// let response = stream.response().await?;
/// assert_eq!(response.text(), "Because of the air.");
/// # Ok::<(), llm::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ResponseStream {
    call: Option<Pin<Box<dyn Future<Output = Result<Response, Error>> + Send>>>,
    // A std mutex suffices, because it is locked briefly and never across an await.
    pieces: Arc<Mutex<VecDeque<Piece>>>,
    response: Option<Result<Response, Error>>,
}

impl Llm {
    /// Sends a request and returns the response as a stream of pieces.
    pub fn stream(&self, request: impl Into<Request>) -> ResponseStream {
        ResponseStream::new(self.clone(), request.into())
    }
}

impl ResponseStream {
    fn new(llm: Llm, request: Request) -> Self {
        let pieces = Arc::new(Mutex::new(VecDeque::new()));
        let queue = pieces.clone();
        let call = async move {
            let mut on_piece = |piece| lock(&queue).push_back(piece);
            llm.call(&request, &mut Listener::new(&mut on_piece)).await
        };
        Self { call: Some(Box::pin(call)), pieces, response: None }
    }

    /// Returns the next piece, or `None` when the call has completed or failed.
    pub async fn next(&mut self) -> Option<Piece> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Waits for the end of the call and returns the whole response. Discards pieces that were not read.
    pub async fn response(mut self) -> Result<Response, Error> {
        loop {
            if let Some(response) = self.response.take() {
                return response;
            }
            self.next().await;
        }
    }

    fn take_piece(&self) -> Option<Piece> {
        lock(&self.pieces).pop_front()
    }
}

impl Stream for ResponseStream {
    type Item = Piece;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Piece>> {
        if let Some(piece) = self.take_piece() {
            return Poll::Ready(Some(piece));
        }
        let Some(call) = &mut self.call else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(response) = call.as_mut().poll(cx) {
            self.call = None;
            self.response = Some(response);
            return Poll::Ready(self.take_piece());
        }
        match self.take_piece() {
            Some(piece) => Poll::Ready(Some(piece)),
            None => Poll::Pending,
        }
    }
}

impl fmt::Debug for ResponseStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseStream")
            .field("is_over", &self.call.is_none())
            .finish_non_exhaustive()
    }
}
