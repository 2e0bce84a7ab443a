//! Asks a model a question and prints its answer as it arrives.
//!
//! ```text
//! cargo run -p llm --example ask -- "Why is the sky blue?"
//! PROVIDER=anthropic ANTHROPIC_API_KEY=… cargo run -p llm --example ask -- "Why is the sky blue?"
//! PROVIDER=ollama MODEL=qwen2.5-coder:7b cargo run -p llm --example ask -- "Why is the sky blue?"
//! ```
//!
//! If PROVIDER is not set, a scripted model answers, so the example runs without an API key.

#![expect(clippy::print_stdout, reason = "an example prints its output")]

use std::{
    env,
    error::Error,
    io::{self, Write},
    process::ExitCode,
};

use llm::{Backoff, Budget, Llm, Piece, Request, Scripted, create_provider};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match ask().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn ask() -> Result<(), Box<dyn Error>> {
    let question = env::args().nth(1).unwrap_or_else(|| "Why is the sky blue?".to_owned());
    let model = match env::var("PROVIDER") {
        Ok(provider) => create_provider(&provider, None, env::var("MODEL").ok().as_deref())?,
        Err(_) => scripted(),
    };
    let budget = Budget::of_tokens(20_000);
    let llm = model.budget(&budget).retry(Backoff::default());

    let mut stream =
        llm.stream(Request::new(question).system("Answer in two sentences.").max_tokens(300));
    while let Some(piece) = stream.next().await {
        match piece {
            Piece::Text(text) => print!("{text}"),
            Piece::Restart => println!("\n(the call failed; retrying from the start)"),
            Piece::Reasoning(_) | Piece::ToolCall(_) | Piece::InvalidToolCall(_) => {}
        }
        io::stdout().flush()?;
    }
    let response = stream.response().await?;
    let cost = response.cost.map_or_else(|| "cost unknown".to_owned(), |it| it.to_string());
    let usage = response.usage.map_or_else(
        || "tokens unknown".to_owned(),
        |it| format!("{} input tokens, {} output tokens", it.input, it.output),
    );
    println!("\n\n{}: {usage}, {cost}", response.model);
    Ok(())
}

fn scripted() -> Llm {
    let answer =
        |_: &Request| "This is a script without an answer to that. Set PROVIDER to ask a model.";
    Llm::new(Scripted::new("parrot", answer))
}
