//! The update type, and its methods.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};

use super::super::check::{Field, Reducer, State};
use crate::syntax::{argument_of, is_called, place_of};

/// The number types that a literal has only where it is told so; the others are `i32` and `f64`.
const NUMBERS: [&str; 12] =
    ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i64", "i128", "isize", "f32"];

/// The struct that nodes return.
pub(super) fn update_type(
    State { vis, ident, update, generics, fields, .. }: &State,
) -> TokenStream {
    let (_, arguments, bounds) = generics.split_for_impl();
    let (names, types): (Vec<_>, Vec<_>) =
        fields.iter().map(|it| (&it.ident, it.written())).unzip();
    // A type parameter that no field uses would be an error of its own after a mistake.
    let used = (!generics.params.is_empty())
        .then(|| quote!(__state: ::core::marker::PhantomData<fn() -> #ident #arguments>,));
    let doc = format!("Some fields of [`{ident}`], as a node writes them.");
    quote! {
        #[doc = #doc]
        #[must_use = "an update does nothing until a node returns it"]
        #vis struct #update #generics #bounds {
            #(#names: ::core::option::Option<::graph_core::state::Write<#types>>,)*
            #used
        }
    }
}

/// `Essay::update()`, and the methods of `EssayUpdate`.
pub(super) fn methods(state: &State) -> TokenStream {
    let State { vis, ident, update, generics, fields, .. } = state;
    let (parameters, arguments, bounds) = generics.split_for_impl();
    let writers = fields.iter().map(|it| it.writer(state));
    let goto = (!fields.iter().any(|it| it.ident == "goto")).then(|| {
        quote! {
            /// Goes somewhere after the update.
            #vis fn goto<__R: ::graph_core::command::Route>(
                self,
                route: __R,
            ) -> ::graph_core::command::Command<#ident #arguments, __R> {
                ::graph_core::command::Command::new(self, route)
            }
        }
    });
    let doc = format!("An update of [`{ident}`] that writes nothing yet.");
    quote! {
        impl #parameters #ident #arguments #bounds {
            #[doc = #doc]
            #[allow(dead_code, reason = "a graph may have no node that writes")]
            #vis fn update() -> #update #arguments {
                ::core::default::Default::default()
            }
        }

        #[allow(dead_code, reason = "a field may be written by nothing but a run's input")]
        #[allow(private_bounds, reason = "a public state may have a private field of a private type")]
        impl #parameters #update #arguments #bounds {
            #(#writers)*
            #goto
        }
    }
}

impl Field {
    /// The method of the update type that writes the field.
    fn writer(&self, state: &State) -> TokenStream {
        let Self { ident, docs, .. } = self;
        let vis = &state.vis;
        let written = self.written();
        let (into, call) = if self.wants_exact_type() {
            let call = quote!(::graph_core::state::ExactWrite::<#written, __M>::into_write(value));
            (quote!(::graph_core::state::ExactWrite<#written, __M>), call)
        } else {
            let call = quote!(::graph_core::state::IntoWrite::<#written, __M>::into_write(value));
            (quote!(::graph_core::state::IntoWrite<#written, __M>), call)
        };
        let doc = format!("Writes the field `{}`.", self.name.value());
        let blank = (!docs.is_empty()).then(|| quote!(#[doc = ""]));
        quote! {
            #(#docs)*
            #blank
            #[doc = #doc]
            #vis fn #ident<__M>(mut self, value: impl #into) -> Self {
                self.#ident = ::core::option::Option::Some(#call);
                self
            }
        }
    }

    /// The type of one write.
    fn written(&self) -> TokenStream {
        let ty = &self.ty;
        match &self.reducer {
            Reducer::Own(path) => quote_spanned! { place_of(path)=>
                <#path as ::graph_core::reduce::Reducer<#ty>>::Update
            },
            Reducer::Known(name) if name == "Append" => {
                let list = argument_of(ty, "Arc").unwrap_or(ty);
                quote!(#list)
            }
            _ => quote!(#ty),
        }
    }

    /// Whether a write is known to have the type of the field.
    pub(super) fn is_written_whole(&self) -> bool {
        !matches!(self.reducer, Reducer::Own(_)) && !self.is_shared()
    }

    /// Whether the reducer looks through the `Arc` around the field's value.
    pub(super) fn is_shared(&self) -> bool {
        let looks_through = match &self.reducer {
            Reducer::Known(name) => name == "Append",
            Reducer::Own(_) => true,
            Reducer::With(_) | Reducer::Upsert { .. } => false,
        };
        looks_through && argument_of(&self.ty, "Arc").is_some()
    }

    fn wants_exact_type(&self) -> bool {
        self.is_written_whole() && is_called(&self.ty, &NUMBERS)
    }
}
