//! Code generation for routes.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Ident, LitStr, Type, ext::IdentExt};

use super::{
    check::{Destination, Route, Variant},
    parse::Target,
};
use crate::syntax::span_of;

pub(super) fn expand(Route { ident, generics, variants }: &Route) -> TokenStream {
    let (parameters, arguments, bounds) = generics.split_for_impl();
    let targets = variants.iter().flatten().flat_map(Variant::targets);
    let gotos = match variants.as_deref() {
        None => quote!(::core::unreachable!()),
        Some([]) => quote!(match self {}),
        Some(variants) => {
            let arms = variants.iter().map(Variant::arm);
            quote! {
                let mut __gotos = ::graph_core::command::Gotos::new();
                match self { #(#arms)* }
                __gotos
            }
        }
    };
    quote! {
        #[automatically_derived]
        impl #parameters ::graph_core::command::Route for #ident #arguments #bounds {
            const EXCLUSIVE: bool = true;

            fn targets() -> ::core::option::Option<
                ::std::vec::Vec<::graph_core::command::RouteTarget>,
            > {
                ::core::option::Option::Some(::std::vec![#(#targets),*])
            }

            fn gotos(self) -> ::graph_core::command::Gotos {
                #gotos
            }
        }
    }
}

impl Variant {
    /// Generates one `RouteTarget` expression per target of the variant.
    fn targets(&self) -> Vec<TokenStream> {
        let name = LitStr::new(&self.ident.unraw().to_string(), self.ident.span());
        let (labels, sends) = match &self.destination {
            Destination::Goto(targets) => (targets.iter().map(target_label).collect(), false),
            Destination::Send(to, payload) | Destination::SendEach(to, payload) => {
                (vec![payload_target_label(to, payload)], true)
            }
        };
        let target =
            |label| quote!(::graph_core::command::derive::route_target(#label, #name, #sends));
        labels.into_iter().map(target).collect()
    }

    /// Generates the match arm that adds the variant's gotos to `__gotos`.
    fn arm(&self) -> TokenStream {
        let ident = &self.ident;
        match &self.destination {
            Destination::Goto(targets) => {
                let labels = targets.iter().map(target_label);
                quote! {
                    Self::#ident { .. } => {
                        #(::graph_core::command::derive::push_goto(&mut __gotos, #labels);)*
                    }
                }
            }
            Destination::Send(to, payload) => self.send_arm("push_send", to, payload),
            Destination::SendEach(to, payload) => self.send_arm("push_sends", to, payload),
        }
    }

    fn send_arm(&self, function: &str, to: &Target, payload: &Type) -> TokenStream {
        let ident = &self.ident;
        let to = payload_target_label(to, payload);
        let function = Ident::new(function, span_of(payload));
        let send = quote_spanned! { span_of(payload)=>
            ::graph_core::command::derive::#function(&mut __gotos, #to, __payload)
        };
        quote!(Self::#ident(__payload) => #send,)
    }
}

/// Generates the expression for the label of a target that receives no payload.
fn target_label(target: &Target) -> TokenStream {
    quote_spanned!(span_of(target)=> ::graph_core::command::derive::target_label(#target))
}

/// Generates the expression for the label of a target that receives the payload.
fn payload_target_label(target: &Target, payload: &Type) -> TokenStream {
    match target {
        Target::Name(name) => quote!(::graph_core::Label::from(#name)),
        Target::Path(path) => quote_spanned! { span_of(path)=>
            ::graph_core::command::derive::payload_target_label::<#payload, _, _>(
                &#path,
                ::core::marker::PhantomData,
            )
        },
    }
}
