//! The code of a route.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Ident, LitStr, Type, ext::IdentExt};

use super::{
    check::{Route, Variant, Way},
    parse::Target,
};
use crate::syntax::place_of;

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
            const ONE_OF: bool = true;

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
    /// The places the variant can lead to.
    fn targets(&self) -> Vec<TokenStream> {
        let name = LitStr::new(&self.ident.unraw().to_string(), self.ident.span());
        let (labels, sends) = match &self.way {
            Way::Go(targets) => (targets.iter().map(place).collect(), false),
            Way::One(to, payload) | Way::Each(to, payload) => (vec![receiver(to, payload)], true),
        };
        let target = |label| quote!(::graph_core::command::derive::target(#label, #name, #sends));
        labels.into_iter().map(target).collect()
    }

    /// The arm that leads there.
    fn arm(&self) -> TokenStream {
        let ident = &self.ident;
        match &self.way {
            Way::Go(targets) => {
                let places = targets.iter().map(place);
                quote! {
                    Self::#ident { .. } => {
                        #(::graph_core::command::derive::go(&mut __gotos, #places);)*
                    }
                }
            }
            Way::One(to, payload) => self.send("send_one", to, payload),
            Way::Each(to, payload) => self.send("send_each", to, payload),
        }
    }

    fn send(&self, function: &str, to: &Target, payload: &Type) -> TokenStream {
        let ident = &self.ident;
        let to = receiver(to, payload);
        let function = Ident::new(function, place_of(payload));
        let send = quote_spanned! { place_of(payload)=>
            ::graph_core::command::derive::#function(&mut __gotos, #to, __payload)
        };
        quote!(Self::#ident(__payload) => #send,)
    }
}

/// The label of a target without payload.
fn place(target: &Target) -> TokenStream {
    quote_spanned!(place_of(target)=> ::graph_core::command::derive::place(#target))
}

/// The label of a target that takes the payload.
fn receiver(target: &Target, payload: &Type) -> TokenStream {
    match target {
        Target::Name(name) => quote!(::graph_core::Label::from(#name)),
        Target::Path(path) => quote_spanned! { place_of(path)=>
            ::graph_core::command::derive::receiver::<#payload, _, _>(
                &#path,
                ::core::marker::PhantomData,
            )
        },
    }
}
