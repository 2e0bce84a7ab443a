//! The second layer: what the documents show.

use graph_core::{Context, NodeError, Route};
use serde::{Deserialize, Serialize};

use super::{
    Deps, PipelineState, PipelineStateUpdate,
    conclude::{About, Concluded, conclude},
    tell::Telling,
};
use crate::{
    data::{Company, News, Subject, Ticker},
    event::{Layer, PipelineEvent},
    finding::{self, Findings, Inference},
};

const LAYER: Layer = Layer::Number(1);

/// What one inference works on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Document {
    inference: Inference,
    ticker: String,
    text: String,
    /// Whether the source had nothing for it: then it says so in every section, and nothing follows from that.
    is_empty: bool,
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

/// Draws numbered findings from one document.
pub(super) async fn inference_agent(
    document: Document,
    cx: &Context<Deps>,
) -> Result<PipelineStateUpdate, NodeError> {
    let Document { inference, ticker, text, is_empty } = document;
    let ticker = Ticker::parse(&ticker).map_err(NodeError::terminal)?;
    let config = &cx.deps().config;
    let persona = match inference {
        Inference::F1 => &config.inferences.f1,
        Inference::F2 => &config.inferences.f2,
    };
    let mut telling = Telling::new(cx);
    telling.tell(PipelineEvent::layer_start(LAYER)).await;
    telling.begins(LAYER, persona).await;
    let Concluded { draft, calls, silence } = if is_empty {
        Concluded::default()
    } else {
        conclude(cx, &About { persona, inference, ticker: &ticker, document: &text }).await?
    };
    if let Some(why) = silence {
        telling.failed(LAYER, persona, &why).await;
        return Err(NodeError::terminal(format!(
            "without {inference} nothing can be proposed: {why}; resuming the run asks again"
        )));
    }
    if draft.findings.is_empty() && !is_empty {
        telling.failed(LAYER, persona, "no finding can be read from the answer").await;
        return Err(NodeError::terminal(format!(
            "no finding can be read from what {} answered, twice; take another model: branch off at layer_1 and set \
             models.inferences.model",
            persona.label()
        )));
    }
    let warnings = if is_empty {
        vec![format!(
            "{inference}: the source has nothing to draw findings from, so nobody was asked"
        )]
    } else {
        let problems = finding::problems(&draft, &text);
        problems.iter().map(|it| format!("{inference}: {it}")).collect()
    };
    let findings = Findings::number(inference, ticker, draft);
    telling.done(LAYER, persona, vec![inference.to_string()]).await;
    let update =
        PipelineState::update().calls(calls).warnings(warnings).status_updates(telling.told());
    let markdown = findings.markdown();
    let update = update.findings([findings]);
    Ok(match inference {
        Inference::F1 => update.f1_financial_inference(markdown),
        Inference::F2 => update.f2_trend_inference(markdown),
    })
}

/// Both are there. Their fields are written by those who made them: writing them once more here would be one write too
/// many.
pub(super) async fn layer_1_reduce(_: &PipelineState, cx: &Context<Deps>) -> PipelineStateUpdate {
    let mut telling = Telling::new(cx);
    let artifacts = vec!["F1".to_owned(), "F2".to_owned()];
    telling.tell(PipelineEvent::layer_complete(LAYER, artifacts)).await;
    PipelineState::update().status_updates(telling.told())
}
