//! Generates the function that creates a tool.

use proc_macro2::TokenStream;
use quote::quote;

use super::parse::{Options, Parameter, Source, ToolFn};

pub(super) fn expand(tool: &ToolFn) -> TokenStream {
    let ToolFn { visibility, function, name, description, docs, output, body, .. } = tool;
    let arguments = tool.parameters.iter().filter(|it| it.source == Source::Model);
    let fields = arguments.map(|Parameter { name, r#type, attributes, .. }| {
        quote! { #(#attributes)* #name: #r#type }
    });
    let inputs =
        tool.parameters.iter().map(|Parameter { name, r#type, .. }| quote! { #name: #r#type });
    let values = tool.parameters.iter().map(|Parameter { name, source, .. }| match source {
        Source::Model => quote! { arguments.#name },
        Source::Runtime => quote! { &runtime },
        Source::State => quote! { runtime.state() },
        Source::Call => quote! { runtime.call() },
        Source::Context => quote! { runtime.context() },
    });
    let reads_state =
        tool.parameters.iter().any(|it| matches!(it.source, Source::State | Source::Runtime));
    let options = options(&tool.options);
    quote! {
        #(#docs)*
        #visibility fn #function() -> ::graph_agents::Tool {
            #[derive(
                ::graph_agents::derive::serde::Deserialize,
                ::graph_agents::derive::schemars::JsonSchema,
            )]
            #[serde(crate = "::graph_agents::derive::serde")]
            #[schemars(crate = "::graph_agents::derive::schemars")]
            struct Arguments {
                #(#fields,)*
            }

            async fn call(#(#inputs),*) #output #body

            ::graph_agents::Tool::new(
                #name,
                #description,
                |arguments: Arguments, runtime: ::graph_agents::ToolRuntime| async move {
                    let _ = (&arguments, &runtime);
                    call(#(#values),*).await
                },
            )
            .reads_state(#reads_state)
            #options
        }
    }
}

/// Generates the calls that set the options of the attribute.
fn options(options: &Options) -> TokenStream {
    let return_direct = options.return_direct.then(|| quote! { .return_direct() });
    let untrusted = options.untrusted.then(|| quote! { .untrusted() });
    let errors =
        options.answer_errors.then(|| quote! { .errors(::graph_agents::ToolErrors::answer_all()) });
    let retries = options.retries.iter();
    let timeout = options.timeout_secs.iter();
    let cache = options.cache_secs.iter();
    let max_output = options.max_output.iter();
    quote! {
        #return_direct
        #untrusted
        #errors
        #(.retry(::graph_agents::middleware::RetryOptions {
            max_retries: #retries,
            ..::std::default::Default::default()
        }))*
        #(.timeout(::std::time::Duration::from_secs(#timeout)))*
        #(.cache(::graph_agents::ToolCache::new().ttl(::std::time::Duration::from_secs(#cache))))*
        #(.max_output(#max_output))*
    }
}
