//! An answer as a stream of its pieces.

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

/// An answer that is coming: a stream of pieces, and the whole answer at its end.
///
/// Nothing runs on its own: the call goes on while somebody asks for pieces, so a slow reader slows the
/// provider down, and keeps its place in a [gate](Llm::gate) and its part of a [budget](Llm::budget) meanwhile.
/// To drop it is to cancel the call. One that is kept and not read keeps what it holds, as a place
/// in a [gate](Llm::gate) and its share of a [budget](Llm::budget): another call that waits for these waits for ever.
pub struct Reply {
    call: Option<Pin<Box<dyn Future<Output = Result<Response, Error>> + Send>>>,
    // A std mutex: held for a moment, never over an await.
    pieces: Arc<Mutex<VecDeque<Piece>>>,
    response: Option<Result<Response, Error>>,
}

impl Reply {
    pub(crate) fn new(llm: Llm, request: Request) -> Self {
        let pieces = Arc::new(Mutex::new(VecDeque::new()));
        let queue = pieces.clone();
        let call = async move {
            let mut hear = |piece| lock(&queue).push_back(piece);
            llm.call(&request, &mut Listener::new(&mut hear)).await
        };
        Self { call: Some(Box::pin(call)), pieces, response: None }
    }

    /// The next piece; `None` when the answer is over, whether it came to its end or failed.
    pub async fn next(&mut self) -> Option<Piece> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// The whole answer: reads on to the end, past pieces that nobody asked for.
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

impl Stream for Reply {
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

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("is_over", &self.call.is_none()).finish_non_exhaustive()
    }
}
