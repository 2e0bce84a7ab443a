//! A server that receives webhooks.

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

pub(crate) struct WebhookReceiver(TcpListener);

/// A webhook that was received and not answered.
pub(crate) struct Received {
    connection: TcpStream,
    pub(crate) body: Value,
}

impl WebhookReceiver {
    pub(crate) async fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.0.local_addr().unwrap())
    }

    /// Waits for the next webhook.
    pub(crate) async fn receive(&self) -> Received {
        let (mut connection, _) = self.0.accept().await.unwrap();
        let mut text = Vec::new();
        loop {
            let mut chunk = [0; 4096];
            let length = connection.read(&mut chunk).await.unwrap();
            text.extend_from_slice(&chunk[..length]);
            let request = String::from_utf8_lossy(&text);
            if let Some((_, body)) = request.split_once("\r\n\r\n")
                && let Ok(body) = serde_json::from_str(body)
            {
                return Received { connection, body };
            }
            assert!(length > 0, "the request has no JSON body: {request}");
        }
    }
}

impl Received {
    /// Answers with a status, and returns the body of the webhook.
    pub(crate) async fn answer(mut self, status: &str) -> Value {
        let response =
            format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        self.connection.write_all(response.as_bytes()).await.unwrap();
        self.body
    }
}
