//! Generates the function that creates a tool.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{ReturnType, spanned::Spanned};

use super::parse::{Options, Parameter, Source, ToolFn};

pub(super) fn expand(tool: &ToolFn) -> TokenStream {
    let ToolFn { visibility, function, name, description, docs, output, body, .. } = tool;
    let arguments = tool.parameters.iter().filter(|it| matches!(it.source, Source::Model));
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
        Source::Store => quote! { ::graph_agents::derive::store(&runtime)? },
        Source::Dependency(inner) => quote! { runtime.dependency::<#inner>()? },
    });
    let dependencies = tool.parameters.iter().filter_map(|it| match &it.source {
        Source::Dependency(inner) => Some(inner),
        _ => None,
    });
    let checks = type_checks(tool);
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

            #checks

            ::graph_agents::Tool::new(
                #name,
                #description,
                |arguments: Arguments, runtime: ::graph_agents::ToolRuntime| async move {
                    let _ = (&arguments, &runtime);
                    ::std::result::Result::Ok::<_, ::graph_agents::derive::NodeError>(
                        call(#(#values),*).await,
                    )
                },
            )
            .reads_state(#reads_state)
            #(.requires::<#dependencies>())*
            #options
        }
    }
}

/// Generates checks of the types in the signature, whose errors point at the types.
fn type_checks(tool: &ToolFn) -> TokenStream {
    let arguments = tool.parameters.iter().filter(|it| matches!(it.source, Source::Model));
    let arguments = arguments.map(|Parameter { r#type, .. }| {
        quote_spanned! { r#type.span() => ::graph_agents::derive::is_argument::<#r#type>(); }
    });
    let output = match &tool.output {
        ReturnType::Type(_, r#type) => {
            quote_spanned! { r#type.span() => ::graph_agents::derive::is_output::<#r#type, _>(); }
        }
        ReturnType::Default => TokenStream::new(),
    };
    quote! {
        let _ = || {
            #(#arguments)*
            #output
        };
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
