//! Assistants that several clients create at the same time.

use futures_util::future::join_all;
use serde_json::json;

use crate::server::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_of_several_clients_creates_an_assistant() {
    let server = Server::start().await;
    for round in 0..20 {
        let id = format!("00000000-0000-4000-8000-{round:012}");
        let body = |name: usize| json!({ "graph_id": "tiny", "assistant_id": id, "name": name.to_string() });
        let bodies: Vec<_> = (0..4).map(body).collect();
        let answers = join_all(bodies.iter().map(|it| server.post("/assistants", it))).await;
        let (created, rejected): (Vec<_>, Vec<_>) = answers.into_iter().partition(|it| it.0 == 200);
        assert_eq!(rejected.iter().map(|it| it.0).collect::<Vec<_>>(), [409; 3], "{rejected:?}");
        let path = format!("/assistants/{id}");
        assert_eq!(server.get(&path).await.1, created[0].1);
        let (_, versions) = server.post(&format!("{path}/versions"), &json!({})).await;
        assert_eq!(versions, json!([created[0].1]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_create_an_assistant_unless_it_exists_receive_the_same_one() {
    let server = Server::start().await;
    for round in 0..20 {
        let id = format!("00000000-0000-4000-8000-{round:012}");
        let body = |name: usize| {
            let name = name.to_string();
            json!({ "graph_id": "tiny", "assistant_id": id, "name": name, "if_exists": "do_nothing" })
        };
        let bodies: Vec<_> = (0..4).map(body).collect();
        let answers = join_all(bodies.iter().map(|it| server.post("/assistants", it))).await;
        let (_, stored) = server.get(&format!("/assistants/{id}")).await;
        for answer in answers {
            assert_eq!(answer, (200, stored.clone()));
        }
    }
}
