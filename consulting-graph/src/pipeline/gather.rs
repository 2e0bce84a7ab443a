//! Layer 0: reads the company data and asks two synthesizer agents to write one document each about it.

use futures_util::future::join;
use graph_core::{Context, NodeError};

use super::{
    deps::{Deps, call_model},
    events::EventSender,
    state::{PipelineState, PipelineStateUpdate},
};
use crate::{
    call::{CallOutcome, CallUsage},
    config::{Group, Persona},
    data::{Company, Subject, Ticker, render},
    event::{Layer, PipelineEvent},
    offline::{Task, Work},
    prompt,
};

const LAYER: Layer = Layer::Number(0);

/// Reads the company data, then asks both synthesizers concurrently to write documents about it.
pub(super) async fn layer_0_gather(
    run: &PipelineState,
    cx: &Context<Deps>,
) -> Result<PipelineStateUpdate, NodeError> {
    let mut sender = EventSender::new(cx);
    sender.send(PipelineEvent::layer_start(LAYER)).await;
    let ticker = Ticker::parse(&run.company_ticker).map_err(NodeError::terminal)?;
    let data = cx.deps().data.clone();
    let company: Company = cx
        .task("company", &run.company_ticker, async {
            data.read(&ticker).await.map_err(NodeError::terminal)
        })
        .await?;
    let synthesizers = &cx.deps().config.synthesizers;
    let (financial, news) = (&synthesizers.financial, &synthesizers.news);
    sender.agent_started(LAYER, financial).await;
    sender.agent_started(LAYER, news).await;
    let (financial_doc, news_doc) = join(
        narrate(cx, &company, Subject::Financial, financial),
        narrate(cx, &company, Subject::Trend, news),
    )
    .await;
    let (mut calls, mut warnings, mut texts) = (Vec::new(), company.warnings.clone(), Vec::new());
    for (persona, name, narration) in
        [(financial, "financial.md", financial_doc?), (news, "news.md", news_doc?)]
    {
        calls.extend(narration.usage);
        match narration.problem {
            None => sender.agent_completed(LAYER, persona, vec![name.to_owned()]).await,
            Some(problem) => {
                sender.agent_failed(LAYER, persona, &problem).await;
                warnings.push(format!(
                    "{}: {problem}; the unedited data is used instead",
                    persona.name
                ));
            }
        }
        texts.push(narration.text);
    }
    let artifacts = vec!["financial.md".to_owned(), "news.md".to_owned()];
    sender.send(PipelineEvent::layer_complete(LAYER, artifacts)).await;
    let news_text = texts.pop().unwrap_or_default();
    Ok(PipelineState::update()
        .company(Some(company))
        .financial_data_raw(texts.pop().unwrap_or_default())
        .news_data_raw(news_text)
        .calls(calls)
        .warnings(warnings)
        .status_updates(sender.into_events()))
}

struct Narration {
    text: String,
    usage: Option<CallUsage>,
    problem: Option<String>,
}

/// Asks a synthesizer to turn the data into a document. If the call fails or the answer is empty, uses the rendered
/// data as the document.
async fn narrate(
    cx: &Context<Deps>,
    company: &Company,
    subject: Subject,
    persona: &Persona,
) -> Result<Narration, NodeError> {
    let data = match subject {
        Subject::Financial => render::financial(company),
        Subject::Trend => render::news(company),
    };
    let fence = &cx.deps().fence;
    let request =
        prompt::synthesizer(persona, &company.ticker, subject, &data, fence).attach(Task {
            agent: persona.clone(),
            work: Work::Document { subject, data: data.clone() },
        });
    Ok(match call_model(cx, Group::Synthesizers, persona, "document", request).await? {
        CallOutcome::Answered(answer) if !answer.text.trim().is_empty() => {
            Narration { text: answer.text, usage: Some(answer.usage), problem: None }
        }
        CallOutcome::Answered(answer) => {
            let problem = Some("the answer is empty".to_owned());
            Narration { text: data, usage: Some(answer.usage), problem }
        }
        CallOutcome::Failed(failure) => {
            Narration { text: data, usage: None, problem: Some(failure.reason) }
        }
    })
}
