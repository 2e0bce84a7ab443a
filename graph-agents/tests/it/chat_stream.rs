use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use graph_agents::{
    Agent, AiMessage, Chat,
    model::{ChatModel, ChunkSink, Prompt},
};
use graph_core::{MemorySaver, NodeError};
use tokio::{io::AsyncReadExt, sync::Notify};

/// A model that sends the second half of its answer after the first half was printed.
#[derive(Debug)]
struct Streaming(Arc<Notify>);

#[async_trait]
impl ChatModel for Streaming {
    async fn call(&self, _: &Prompt, chunks: &mut ChunkSink<'_>) -> Result<AiMessage, NodeError> {
        chunks.send(AiMessage::new("Hel")).await;
        self.0.notified().await;
        chunks.send(AiMessage::new("lo!")).await;
        Ok(AiMessage::new("Hello!"))
    }
}

/// The clock is paused: if nothing is printed before the answer is complete, the timeout expires immediately.
#[tokio::test(start_paused = true)]
async fn pieces_of_an_answer_are_printed_while_it_arrives() {
    let printed = Arc::new(Notify::new());
    let model = Streaming(printed.clone());
    let agent = Agent::new(model).checkpointer(MemorySaver::new()).compile().unwrap();
    let (mut screen, output) = tokio::io::duplex(1024);
    let chat = Chat::new(&agent).run(&b"hi\n"[..], output);
    let reader = async {
        let mut text = String::new();
        while !text.ends_with("Hel") {
            text.push(char::from(screen.read_u8().await.unwrap()));
        }
        printed.notify_one();
        screen.read_to_string(&mut text).await.unwrap();
        text
    };
    let both = async { tokio::join!(chat, reader) };
    let (ended, text) = tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
    ended.unwrap();
    assert_eq!(text, "> Hello!\n> \n");
}
