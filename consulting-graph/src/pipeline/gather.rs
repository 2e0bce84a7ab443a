//! The first layer: what is known of the company, and two documents that tell it.

use futures_util::future::join;
use graph_core::{Context, NodeError};

use super::{Deps, PipelineState, PipelineStateUpdate, ask, tell::Telling};
use crate::{
    ask::{Heard, Paid},
    config::{Group, Persona},
    data::{Company, Subject, Ticker, render},
    event::{Layer, PipelineEvent},
    prompt,
};

const LAYER: Layer = Layer::Number(0);

/// Reads the data once, computes what is to compute, and lets two synthesizers narrate it at once.
pub(super) async fn layer_0_gather(
    run: &PipelineState,
    cx: &Context<Deps>,
) -> Result<PipelineStateUpdate, NodeError> {
    let mut telling = Telling::new(cx);
    telling.tell(PipelineEvent::layer_start(LAYER)).await;
    let ticker = Ticker::parse(&run.company_ticker).map_err(NodeError::terminal)?;
    let data = cx.deps().data.clone();
    let company: Company = cx
        .task("company", &run.company_ticker, async {
            data.read(&ticker).await.map_err(NodeError::terminal)
        })
        .await?;
    let synthesizers = &cx.deps().config.synthesizers;
    let (financial, news) = (&synthesizers.financial, &synthesizers.news);
    telling.begins(LAYER, financial).await;
    telling.begins(LAYER, news).await;
    let (financial_doc, news_doc) = join(
        narrate(cx, &company, Subject::Financial, financial),
        narrate(cx, &company, Subject::Trend, news),
    )
    .await;
    let (mut calls, mut warnings, mut texts) = (Vec::new(), company.warnings.clone(), Vec::new());
    for (persona, name, narrated) in
        [(financial, "financial.md", financial_doc?), (news, "news.md", news_doc?)]
    {
        calls.extend(narrated.paid);
        match narrated.problem {
            None => telling.done(LAYER, persona, vec![name.to_owned()]).await,
            Some(problem) => {
                telling.failed(LAYER, persona, &problem).await;
                warnings.push(format!("{}: {problem}; the data stand in its place", persona.name));
            }
        }
        texts.push(narrated.text);
    }
    let artifacts = vec!["financial.md".to_owned(), "news.md".to_owned()];
    telling.tell(PipelineEvent::layer_complete(LAYER, artifacts)).await;
    let news_text = texts.pop().unwrap_or_default();
    Ok(PipelineState::update()
        .company(Some(company))
        .financial_data_raw(texts.pop().unwrap_or_default())
        .news_data_raw(news_text)
        .calls(calls)
        .warnings(warnings)
        .status_updates(telling.told()))
}

struct Narrated {
    text: String,
    paid: Option<Paid>,
    problem: Option<String>,
}

/// Where nobody narrates, the data speak for themselves.
async fn narrate(
    cx: &Context<Deps>,
    company: &Company,
    subject: Subject,
    persona: &Persona,
) -> Result<Narrated, NodeError> {
    let data = match subject {
        Subject::Financial => render::financial(company),
        Subject::Trend => render::news(company),
    };
    let fence = &cx.deps().fence;
    let request = prompt::synthesizer(persona, &company.ticker, subject, &data, fence);
    Ok(match ask(cx, Group::Synthesizers, persona, "document", request).await? {
        Heard::Said(said) if !said.text.trim().is_empty() => {
            Narrated { text: said.text, paid: Some(said.paid), problem: None }
        }
        Heard::Said(said) => {
            let problem = Some("answered nothing".to_owned());
            Narrated { text: data, paid: Some(said.paid), problem }
        }
        Heard::Silent(silence) => Narrated { text: data, paid: None, problem: Some(silence.why) },
    })
}
