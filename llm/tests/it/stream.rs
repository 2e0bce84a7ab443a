//! Tests of `Llm` and of streamed responses.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use llm::{
    Error, ErrorKind, Finish, Listener, Llm, Model, ModelId, Part, Piece, Request, Response,
};
use tokio::time::sleep;

fn id() -> ModelId {
    ModelId::new("test", "words")
}

/// A model that repeats the text of the request, one word per second.
#[derive(Debug, Default)]
struct Slow {
    said: Arc<AtomicUsize>,
    dropped: Arc<AtomicBool>,
    fails_after: Option<usize>,
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[async_trait]
impl Model for Slow {
    fn id(&self) -> ModelId {
        id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let _guard = SetOnDrop(self.dropped.clone());
        let text = request.messages[0].text();
        for (i, word) in text.split_inclusive(' ').enumerate() {
            if self.fails_after == Some(i) {
                return Err(Error::new(ErrorKind::Truncated, id(), "in the middle"));
            }
            sleep(Duration::from_secs(1)).await;
            self.said.fetch_add(1, Ordering::Relaxed);
            listener.send(Piece::Text(word.to_owned()));
        }
        Ok(Response {
            content: vec![Part::text(text)],
            model: id(),
            finish: Finish::Stop,
            usage: None,
            latency: Duration::ZERO,
            cost: None,
            logprobs: Vec::new(),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn pieces_precede_the_whole_response() {
    let mut stream = Llm::new(Slow::default()).stream("one two three");
    let mut pieces = Vec::new();
    while let Some(piece) = stream.next().await {
        pieces.push(piece);
    }
    assert_eq!(pieces, ["one ", "two ", "three"].map(|it| Piece::Text(it.to_owned())));
    assert_eq!(stream.response().await.unwrap().text(), "one two three");
}

#[tokio::test(start_paused = true)]
async fn response_can_be_awaited_without_reading_pieces() {
    let stream = Llm::new(Slow::default()).stream("one two");
    assert_eq!(stream.response().await.unwrap().text(), "one two");
}

#[tokio::test(start_paused = true)]
async fn failure_ends_the_stream() {
    let llm = Llm::new(Slow { fails_after: Some(1), ..Slow::default() });
    let mut stream = llm.stream("one two");
    assert_eq!(stream.next().await, Some(Piece::Text("one ".to_owned())));
    assert_eq!(stream.next().await, None);
    assert_eq!(stream.next().await, None);
    assert_eq!(stream.response().await.unwrap_err().kind, ErrorKind::Truncated);
}

#[tokio::test(start_paused = true)]
async fn slow_reader_pauses_the_model() {
    let slow = Slow::default();
    let said = slow.said.clone();
    let mut stream = Llm::new(slow).stream("one two three");
    stream.next().await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(said.load(Ordering::Relaxed), 1, "the model continued without a reader");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_cancels_the_call() {
    let slow = Slow::default();
    let dropped = slow.dropped.clone();
    let mut stream = Llm::new(slow).stream("one two three");
    stream.next().await;
    assert!(!dropped.load(Ordering::Relaxed));
    drop(stream);
    assert!(dropped.load(Ordering::Relaxed));
}

#[test]
fn restart_is_sent_only_after_a_piece() {
    let mut pieces = Vec::new();
    let mut on_piece = |piece| pieces.push(piece);
    let mut listener = Listener::new(&mut on_piece);
    listener.restart();
    listener.send(Piece::Text("a".to_owned()));
    listener.restart();
    listener.restart();
    assert_eq!(pieces, [Piece::Text("a".to_owned()), Piece::Restart]);
}
