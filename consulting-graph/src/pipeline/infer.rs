//! Layer 1: draws findings from the documents.

use std::sync::Arc;

use graph_core::{Context, NodeError, Route};
use serde::{Deserialize, Serialize};

use super::{
    deps::Deps,
    events::EventSender,
    request_findings::{FindingsResult, InferenceTask, request_findings},
    state::{PipelineState, PipelineStateUpdate},
};
use crate::{
    data::{Company, News, Subject, Ticker},
    event::{Layer, PipelineEvent},
    finding::{self, Findings, Inference},
};

const LAYER: Layer = Layer::Number(1);

/// Input of one inference agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Document {
    inference: Inference,
    ticker: String,
    text: String,
    /// Whether the data source has no data for this document. If so, every section of the document says that it has no
    /// data, and no findings are drawn from the document.
    is_empty: bool,
    /// The company data that the document was written from, for the offline board (the scripted model).
    #[serde(default)]
    company: Option<Company>,
}

#[derive(Route)]
pub(super) enum Layer1 {
    #[to(inference_agent)]
    Documents(Vec<Document>),
}

pub(super) fn layer_1_dispatch(run: &PipelineState) -> Layer1 {
    let document = |inference, text: &str, is_empty| Document {
        inference,
        ticker: run.company_ticker.clone(),
        text: text.to_owned(),
        is_empty,
        company: run.company.clone(),
    };
    let has_no_news = run.company.as_ref().is_some_and(has_no_news);
    Layer1::Documents(vec![
        document(Inference::F1, &run.financial_data_raw, false),
        document(Inference::F2, &run.news_data_raw, has_no_news),
    ])
}

fn has_no_news(company: &Company) -> bool {
    let is_empty = company.news.as_ref().is_none_or(|it| *it == News::default());
    is_empty && !company.documents.iter().any(|it| it.about == Subject::Trend)
}

/// Asks an inference agent for the findings in one document and numbers them.
pub(super) async fn inference_agent(
    document: Document,
    cx: &Context<Deps>,
) -> Result<PipelineStateUpdate, NodeError> {
    let Document { inference, ticker, text, is_empty, company } = document;
    let ticker = Ticker::parse(&ticker).map_err(NodeError::terminal)?;
    let config = &cx.deps().config;
    let persona = match inference {
        Inference::F1 => &config.inferences.f1,
        Inference::F2 => &config.inferences.f2,
    };
    let mut sender = EventSender::new(cx);
    sender.send(PipelineEvent::layer_start(LAYER)).await;
    sender.agent_started(LAYER, persona).await;
    let FindingsResult { draft, calls, failure } = if is_empty {
        FindingsResult::default()
    } else {
        let company = company.map(Arc::new);
        let task = InferenceTask { persona, inference, ticker: &ticker, document: &text, company };
        request_findings(cx, &task).await?
    };
    if let Some(reason) = failure {
        sender.agent_failed(LAYER, persona, &reason).await;
        return Err(NodeError::terminal(format!(
            "the findings {inference} are missing, so no moves can be proposed: {reason}; resume the run to try again"
        )));
    }
    if draft.findings.is_empty() && !is_empty {
        sender.agent_failed(LAYER, persona, "the answer contains no readable finding").await;
        return Err(NodeError::terminal(format!(
            "both answers of {} contain no readable finding; fork the run with --at layer_1 --set \
             models.inferences.model=NAME to use another model",
            persona.label()
        )));
    }
    let warnings = if is_empty {
        vec![format!(
            "{inference}: skipped, because the data source has nothing to draw findings from"
        )]
    } else {
        let problems = finding::violations(&draft, &text);
        problems.iter().map(|it| format!("{inference}: {it}")).collect()
    };
    let findings = Findings::from_draft(inference, ticker, draft);
    sender.agent_completed(LAYER, persona, vec![inference.to_string()]).await;
    let update = PipelineState::update()
        .calls(calls)
        .warnings(warnings)
        .status_updates(sender.into_events());
    let markdown = findings.markdown();
    let update = update.findings([findings]);
    Ok(match inference {
        Inference::F1 => update.f1_financial_inference(markdown),
        Inference::F2 => update.f2_trend_inference(markdown),
    })
}

/// Marks the layer as complete. The inference agents have already written F1 and F2 to the state, each to its own
/// field, because a field without a reducer accepts only one write per step.
pub(super) async fn layer_1_reduce(_: &PipelineState, cx: &Context<Deps>) -> PipelineStateUpdate {
    let mut sender = EventSender::new(cx);
    let artifacts = vec!["F1".to_owned(), "F2".to_owned()];
    sender.send(PipelineEvent::layer_complete(LAYER, artifacts)).await;
    PipelineState::update().status_updates(sender.into_events())
}
