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
    call::{self, Failure},
    data::{Company, Ticker, filing, trend},
    event::{Layer, PipelineEvent},
    finding::{self, Findings, Inference},
};

const LAYER: Layer = Layer::Number(1);

/// Warning about findings that were requested one at a time.
const ONE_AT_A_TIME: &str = "findings were requested one at a time, because the model returned no list that could be \
                             parsed; their strengths and the contradictions between them are not known";

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
    let is_empty = run.company.as_ref().is_some_and(|it| !it.has_news() && !has_trends(it));
    Layer1::Documents(vec![
        document(Inference::F1, &run.financial_data_raw, false),
        document(Inference::F2, &run.news_data_raw, is_empty),
    ])
}

fn has_trends(company: &Company) -> bool {
    let trends = trend::quarterly(company).into_iter().chain(trend::annual(company));
    trends.filter_map(|it| it.sentence()).next().is_some() || !filing::events(company).is_empty()
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
    let FindingsResult { draft, one_at_a_time, calls, failure, remaining_failure } = if is_empty {
        FindingsResult::default()
    } else {
        let company = company.map(Arc::new);
        let task = InferenceTask { persona, inference, ticker: &ticker, document: &text, company };
        request_findings(cx, &task).await?
    };
    let failure = failure.map(|it| Failure::new(&*persona.id, it)).or_else(|| {
        let is_missing = draft.findings.is_empty() && !is_empty;
        is_missing.then(|| Failure::unusable(&*persona.id, "no finding could be read"))
    });
    // The next node fails the run. When the run is resumed, this node runs again.
    if let Some(failure) = failure {
        sender.agent_failed(LAYER, persona, &failure.reason).await;
        let update = PipelineState::update().calls(calls).failures([failure]);
        return Ok(update.status_updates(sender.into_events()));
    }
    let warnings = if is_empty {
        vec![format!(
            "{inference}: skipped, because the data source has nothing to draw findings from"
        )]
    } else {
        let problems = finding::violations(&draft, &text);
        let problems = problems.iter().map(|it| format!("{inference}: {it}"));
        let notice = one_at_a_time.then(|| format!("{inference}: {ONE_AT_A_TIME}"));
        notice.into_iter().chain(problems).collect()
    };
    let findings = Findings::from_draft(inference, ticker, draft);
    let (markdown, file) = (findings.markdown(), format!("{inference}.md"));
    cx.deps().write_document(&file, &markdown)?;
    sender.agent_completed(LAYER, persona, vec![file]).await;
    let failures: Vec<Failure> =
        remaining_failure.into_iter().map(|it| Failure::new(&*persona.id, it)).collect();
    let update = PipelineState::update()
        .calls(calls)
        .failures(failures)
        .warnings(warnings)
        .status_updates(sender.into_events());
    let update = update.findings([findings]);
    Ok(match inference {
        Inference::F1 => update.f1_financial_inference(markdown),
        Inference::F2 => update.f2_trend_inference(markdown),
    })
}

/// Completes the layer, or fails the run if there are no findings from a document. The inference agents have already
/// written F1 and F2 to the state, each to its own field, because a field without a reducer accepts only one write per
/// step.
pub(super) async fn layer_1_reduce(
    run: &PipelineState,
    cx: &Context<Deps>,
) -> Result<PipelineStateUpdate, NodeError> {
    let config = &cx.deps().config;
    let agents = [(Inference::F1, &config.inferences.f1), (Inference::F2, &config.inferences.f2)];
    let is_own = |it: &&Failure| agents.iter().any(|agent| agent.1.id == it.place);
    let failures: Vec<Failure> = run.failures.iter().filter(is_own).cloned().collect();
    // Other failures are not fatal, because only some of the findings are missing.
    let has_findings = |of: Inference| run.findings.iter().any(|it| it.inference == of);
    let is_fatal =
        |it: &&Failure| agents.iter().any(|agent| agent.1.id == it.place && !has_findings(agent.0));
    if let Some(failure) = failures.iter().find(is_fatal) {
        return Err(NodeError::terminal(format!(
            "findings are missing, so no moves can be proposed: {}; {}, or fork it with --at layer_1 --set \
             models.inferences.model=NAME to use another model",
            failure.describe(config),
            call::advice(&run.failures)
        )));
    }
    let mut sender = EventSender::new(cx);
    let artifacts = ["F1.md", "F2.md"].map(str::to_owned).into();
    sender.send(PipelineEvent::layer_end(LAYER, artifacts, &failures)).await;
    Ok(PipelineState::update().status_updates(sender.into_events()))
}
