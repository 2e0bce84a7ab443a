//! Tries other models when the model fails.

use async_trait::async_trait;
use graph_core::NodeError;

use super::hooks::{Hooks, Middleware};
use crate::{
    error::is_failure,
    model::{ModelAnswer, ModelHandler, ModelRequest, SharedModel},
};

/// Tries other models, in order, when the model fails. If all models fail, returns the error of the last one.
///
/// ```
/// use std::sync::Arc;
/// use graph_agents::{
///     Agent, AiMessage, ScriptedModel,
///     middleware::ModelFallback,
///     model::SharedModel,
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A script without answers fails.
/// let broken = ScriptedModel::new(Vec::<AiMessage>::new());
/// let spare: SharedModel = Arc::new(ScriptedModel::new([AiMessage::new("Hello!")]));
/// let agent = Agent::new(broken).middleware(ModelFallback::new([spare])).compile()?;
/// assert_eq!(agent.run("Hi").await?.text(), "Hello!");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ModelFallback {
    models: Vec<SharedModel>,
}

impl ModelFallback {
    /// Creates the middleware with the models to try.
    pub fn new(models: impl IntoIterator<Item = SharedModel>) -> Self {
        Self { models: models.into_iter().collect() }
    }
}

#[async_trait]
impl Middleware for ModelFallback {
    fn name(&self) -> String {
        "ModelFallbackMiddleware".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().wrap_model_call()
    }

    async fn wrap_model_call(
        &self,
        request: ModelRequest,
        next: ModelHandler,
    ) -> Result<ModelAnswer, NodeError> {
        let mut result = next.call(request.clone()).await;
        for model in &self.models {
            match &result {
                Err(error) if is_failure(error) => {
                    result =
                        next.call(ModelRequest { model: model.clone(), ..request.clone() }).await;
                }
                _ => break,
            }
        }
        result
    }
}
