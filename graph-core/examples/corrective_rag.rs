//! Corrective retrieval: an async branch grades the documents, and a bad grade leads to a better query.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{Context, Route, START, State, StateGraph};

#[derive(State, Clone, Debug, Default)]
struct Question {
    query: String,
    documents: Vec<String>,
    #[reduce(add)]
    searches: u32,
    answer: String,
}

/// Simulates a search index and a language model.
struct Services;

impl Services {
    async fn search(&self, query: &str) -> Vec<String> {
        let known = ["rust has no garbage collector", "tea is a drink"];
        known.iter().filter(|it| it.contains(query)).map(ToString::to_string).collect()
    }

    async fn is_relevant(&self, documents: &[String]) -> bool {
        !documents.is_empty()
    }
}

async fn retrieve(question: &Question, cx: &Context<Services>) -> QuestionUpdate {
    let documents = cx.deps().search(&question.query).await;
    Question::update().documents(documents).searches(1)
}

#[derive(Route)]
enum Grade {
    #[to(generate)]
    Relevant,
    #[to(rewrite)]
    Irrelevant,
}

async fn grade(question: &Question, cx: &Context<Services>) -> Grade {
    let good = question.searches > 2 || cx.deps().is_relevant(&question.documents).await;
    if good { Grade::Relevant } else { Grade::Irrelevant }
}

async fn rewrite(question: &Question) -> QuestionUpdate {
    let first = question.query.split(' ').next().unwrap_or_default();
    Question::update().query(first.to_lowercase())
}

async fn generate(question: &Question) -> QuestionUpdate {
    Question::update().answer(question.documents.join("; "))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Question, Services>::new()
        .node(retrieve)
        .node(rewrite)
        .node(generate)
        .edge(START, retrieve)
        .branch(retrieve, grade)
        .edge(rewrite, retrieve)
        .compile()?;
    let question = graph.invoke(Question::update().query("Rust memory"), Services).await?;
    println!("{} (after {} searches)", question.answer, question.searches);
    Ok(())
}
