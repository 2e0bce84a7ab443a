//! Layer 0: reads the company data, renders it as two documents, and asks two synthesizer agents to narrate them.

use std::collections::BTreeMap;

use futures_util::future::join;
use graph_core::{Context, NodeError};

use super::{
    deps::{Deps, call_model},
    events::EventSender,
    state::{PipelineState, PipelineStateUpdate},
};
use crate::{
    call::{Answer, CallOutcome, CallUsage, Failure, FailureKind},
    config::{Group, Persona},
    data::{Company, Subject, Ticker, render},
    event::{Layer, PipelineEvent},
    offline::{Task, Work},
    prompt, unusable,
};

const LAYER: Layer = Layer::Number(0);

/// Warning about a document that was not narrated.
const NOT_NARRATED: &str = "wrote no document, because the data and the document exceed the context window of the model; \
                            the findings are drawn from the data in any case";

/// Reads the company data and renders the documents, then asks both synthesizers concurrently to narrate them.
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
    let (financial_data, news_data) = (render::financial(&company), render::news(&company));
    cx.deps().write_document("financial.md", &financial_data)?;
    cx.deps().write_document("news.md", &news_data)?;
    let synthesizers = &cx.deps().config.synthesizers;
    let (financial, news) = (&synthesizers.financial, &synthesizers.news);
    sender.agent_started(LAYER, financial).await;
    sender.agent_started(LAYER, news).await;
    let (financial_doc, news_doc) = join(
        narrate(cx, &company, Subject::Financial, &financial_data, financial),
        narrate(cx, &company, Subject::Trend, &news_data, news),
    )
    .await;
    let (mut calls, mut failures, mut narrations) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut warnings = company.warnings.clone();
    let mut artifacts = vec!["financial.md".to_owned(), "news.md".to_owned()];
    for (persona, name, narration) in [
        (financial, "financial-narrated.md", financial_doc?),
        (news, "news-narrated.md", news_doc?),
    ] {
        calls.extend(narration.usage);
        match narration.text {
            Ok(Some(text)) => {
                cx.deps().write_document(name, &text)?;
                artifacts.push(name.to_owned());
                narrations.insert(name.to_owned(), text);
                sender.agent_completed(LAYER, persona, vec![name.to_owned()]).await;
            }
            Ok(None) => {
                warnings.push(format!("{}: {NOT_NARRATED}", persona.label()));
                sender.agent_completed(LAYER, persona, Vec::new()).await;
            }
            Err(failure) => {
                sender.agent_failed(LAYER, persona, &failure.reason).await;
                failures.push(failure);
            }
        }
    }
    sender.send(PipelineEvent::layer_end(LAYER, artifacts, &failures)).await;
    Ok(PipelineState::update()
        .warnings(warnings)
        .company(Some(company))
        .financial_data_raw(financial_data)
        .news_data_raw(news_data)
        .narrations(narrations)
        .calls(calls)
        .failures(failures)
        .status_updates(sender.into_events()))
}

struct Narration {
    /// `None` if the data and a narration do not fit the context window of the model.
    text: Result<Option<String>, Failure>,
    usage: Option<CallUsage>,
}

/// Asks a synthesizer to narrate the data. The narration is for readers; findings are drawn from the data.
async fn narrate(
    cx: &Context<Deps>,
    company: &Company,
    subject: Subject,
    data: &str,
    persona: &Persona,
) -> Result<Narration, NodeError> {
    let fence = &cx.deps().fence;
    let request =
        prompt::synthesizer(persona, &company.ticker, subject, data, fence).attach(Task {
            agent: persona.clone(),
            work: Work::Document { subject, data: data.to_owned() },
        });
    let data_bytes = unusable::data_bytes(&request);
    let omitted = Narration { text: Ok(None), usage: None };
    let settings = cx.deps().models.call_settings(Group::Synthesizers, &persona.id);
    if settings.window.as_ref().is_some_and(|it| !it.fits(&settings.apply(request.clone()))) {
        return Ok(omitted);
    }
    Ok(match call_model(cx, Group::Synthesizers, persona, "document", request).await? {
        CallOutcome::Answered(Answer { text, is_cut, usage, .. }) => {
            let text = match unusable::narration_problem(&text, data_bytes, is_cut) {
                None => Ok(Some(text)),
                Some(problem) => Err(Failure::unusable(&*persona.id, problem)),
            };
            Narration { text, usage: Some(usage) }
        }
        CallOutcome::Failed(it) if it.kind == FailureKind::TooLong => omitted,
        CallOutcome::Failed(failure) => {
            Narration { text: Err(Failure::new(&*persona.id, failure)), usage: None }
        }
    })
}
