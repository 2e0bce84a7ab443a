//! The second layer: what the documents show.

use graph_core::{Context, NodeError, Route};
use serde::{Deserialize, Serialize};

use super::{Deps, PipelineState, PipelineStateUpdate, ask, tell::Telling};
use crate::{
    ask::Heard,
    config::Group,
    data::Ticker,
    event::{Layer, PipelineEvent},
    finding::{self, Findings, FindingsDraft, Inference},
    prompt,
};

const LAYER: Layer = Layer::Number(1);

/// What one inference works on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Document {
    inference: Inference,
    ticker: String,
    text: String,
}

#[derive(Route)]
pub(super) enum Layer1 {
    #[to(inference_agent)]
    Documents(Vec<Document>),
}

pub(super) fn layer_1_dispatch(run: &PipelineState) -> Layer1 {
    let document = |inference, text: &str| Document {
        inference,
        ticker: run.company_ticker.clone(),
        text: text.to_owned(),
    };
    Layer1::Documents(vec![
        document(Inference::F1, &run.financial_data_raw),
        document(Inference::F2, &run.news_data_raw),
    ])
}

/// Draws numbered findings from one document.
pub(super) async fn inference_agent(
    document: Document,
    cx: &Context<Deps>,
) -> Result<PipelineStateUpdate, NodeError> {
    let Document { inference, ticker, text } = document;
    let ticker = Ticker::parse(&ticker).map_err(NodeError::terminal)?;
    let Deps { config, fence, .. } = cx.deps();
    let persona = match inference {
        Inference::F1 => &config.inferences.f1,
        Inference::F2 => &config.inferences.f2,
    };
    let mut telling = Telling::new(cx);
    telling.tell(PipelineEvent::layer_start(LAYER)).await;
    telling.begins(LAYER, persona).await;
    let request = prompt::inference(persona, &ticker, inference, &text, fence);
    let request = request.schema(llm::Schema::of::<FindingsDraft>());
    let said = match ask(cx, Group::Inferences, persona, "findings", request).await? {
        Heard::Said(said) => said,
        Heard::Silent(silence) => {
            telling.failed(LAYER, persona, &silence.why).await;
            return Err(NodeError::terminal(format!(
                "without {inference} nothing can be proposed: {}; `consulting resume` asks again",
                silence.why
            )));
        }
    };
    let draft = finding::read(&said.text);
    if draft.findings.is_empty() {
        telling.failed(LAYER, persona, "no finding can be read from the answer").await;
        return Err(NodeError::terminal(format!(
            "no finding can be read from the answer of {}",
            persona.label()
        )));
    }
    let problems = finding::problems(&draft, &text);
    let warnings = problems.iter().map(|it| format!("{inference}: {it}")).collect::<Vec<_>>();
    let findings = Findings::number(inference, ticker, draft);
    telling.done(LAYER, persona, vec![inference.to_string()]).await;
    let update = PipelineState::update()
        .calls([said.paid])
        .warnings(warnings)
        .status_updates(telling.told());
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
