//! Model calls inside graph nodes publish their pieces to the message stream of the run.

use graph_core::{
    CompiledGraph, Context, EventKind, NodeError, RunOptions, START, State, StateGraph, StreamMode,
};
use llm::{Llm, Reply, Request, Scripted};

#[derive(State, Clone, Debug, Default)]
struct Chat {
    #[reduce(append)]
    lines: Vec<String>,
}

/// Calls the model far from the node, without a context.
async fn ask(llm: &Llm, prompt: &str) -> Result<String, llm::Error> {
    Ok(llm.generate(prompt).await?.text())
}

async fn answer(_: &Chat, cx: &Context<Llm>) -> Result<ChatUpdate, NodeError> {
    let (first, second) = tokio::join!(ask(cx.deps(), "one two"), ask(cx.deps(), "three"));
    let third = ask(&cx.deps().clone().nostream(), "muted").await?;
    Ok(Chat::update().lines([first?, second?, third]))
}

fn graph() -> CompiledGraph<Chat, Llm> {
    let graph = StateGraph::<Chat, Llm>::new().node(answer).edge(START, answer);
    graph.compile().expect("the graph is valid")
}

fn echo() -> Llm {
    Llm::new(Scripted::new("echo", |request: &Request| Reply::from(request.prompt())))
}

/// Runs the graph and returns the streamed pieces with their nodes, and the final lines.
async fn run(mode: StreamMode) -> (Vec<(String, String)>, Vec<String>) {
    let options = RunOptions::new().stream_modes([mode]);
    let mut events = graph().with(options).stream(Chat::default(), echo());
    let mut pieces = Vec::new();
    while let Some(event) = events.next().await {
        if let EventKind::Message(piece) = event.kind {
            let text = piece["text"].as_str().unwrap_or_default().to_owned();
            pieces.push((event.node.as_deref().unwrap_or_default().to_owned(), text));
        }
    }
    let chat = events.finish().await.expect("the run completes").into_state();
    (pieces, chat.lines)
}

#[tokio::test]
async fn calls_in_a_node_stream_their_pieces_unless_they_are_muted() {
    let (pieces, lines) = run(StreamMode::Messages).await;
    assert_eq!(lines, ["one two", "three", "muted"]);
    let text = |wanted: &str| pieces.iter().any(|(_, text)| wanted.contains(text.as_str()));
    assert!(pieces.iter().all(|(node, _)| node == "answer"), "{pieces:?}");
    assert!(text("one two") && text("three") && !text("muted"), "{pieces:?}");
}

#[tokio::test]
async fn a_run_without_a_message_stream_gets_no_pieces() {
    let (pieces, lines) = run(StreamMode::Values).await;
    assert_eq!((pieces.len(), lines.len()), (0, 3));
}
