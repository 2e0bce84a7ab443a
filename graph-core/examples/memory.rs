//! Long-term memory: a store that all threads share, with filters and expiry.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::time::Duration;

use graph_core::{
    Context, NodeError, START, State, StateGraph,
    store::{Filter, InMemoryStore, Put, Search, Store},
};
use serde_json::json;

#[derive(State, Clone, Debug, Default)]
struct Chat {
    user: String,
    text: String,
}

async fn greet(chat: &Chat, cx: &Context) -> Result<ChatUpdate, NodeError> {
    let store = cx.store().ok_or("this graph needs a store")?;
    let profile = store.get(&["users", &chat.user], "profile").await?;
    let visits = profile.and_then(|it| it.value["visits"].as_u64()).unwrap_or(0) + 1;
    store.put(&["users", &chat.user], "profile", json!({ "visits": visits })).await?;
    Ok(Chat::update().text(format!("Hello {}, this is visit {visits}.", chat.user)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = InMemoryStore::new();
    let graph =
        StateGraph::<Chat>::new().node(greet).edge(START, greet).store(store.clone()).compile()?;
    for user in ["ada", "bob", "ada"] {
        println!(
            "{}",
            graph.invoke(Chat { user: user.into(), ..Default::default() }, ()).await?.text
        );
    }

    let regulars = Search::under(&["users"])?.filter(Filter::gte("visits", 2));
    for item in store.search(regulars).await? {
        println!("regular: {}", item.namespace);
    }

    let code = Put::new(&["codes"], "ada", json!({ "code": 1234 }))?;
    store.put_item(code.ttl(Duration::from_secs(60))).await?;
    println!("valid for a minute: {:?}", store.get(&["codes"], "ada").await?.map(|it| it.value));
    Ok(())
}
