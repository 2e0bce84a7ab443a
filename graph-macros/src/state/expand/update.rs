//! Code generation for the update type and its methods.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Ident, Type};

use super::super::check::{Field, Reducer, State};
use crate::syntax::{argument_of, is_named};

/// The number types except `i32` and `f64`, which are the default types of number literals.
const NUMBERS: [&str; 12] =
    ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i64", "i128", "isize", "f32"];

/// Generates the update type.
pub(super) fn update_type(state: &State) -> TokenStream {
    let State { vis, ident, update, generics, fields, fields_span, .. } = state;
    let update = Ident::new(&update.to_string(), *fields_span);
    let (_, arguments, bounds) = generics.split_for_impl();
    let fields = fields.iter().map(|it| {
        let (name, written) = (&it.ident, it.write_type(state));
        let span =
            if matches!(it.reducer, Reducer::Custom(_)) { it.path_span() } else { *fields_span };
        let ty =
            quote_spanned!(span=> ::core::option::Option<::graph_core::state::Write<#written>>);
        quote_spanned!(span=> #name: #ty)
    });
    // The marker uses all type parameters. If fields are left out because of an error, a type parameter might otherwise
    // be unused, which would be another error.
    let marker = (!generics.params.is_empty())
        .then(|| quote!(__state: ::core::marker::PhantomData<fn() -> #ident #arguments>,));
    let doc = format!("An update of [`{ident}`]: writes to some of its fields.");
    quote_spanned! { *fields_span=>
        #[doc = #doc]
        #[must_use = "an update does nothing until a node returns it"]
        #vis struct #update #generics #bounds {
            #(#fields,)*
            #marker
        }
    }
}

/// Generates the struct's `update()` function and the methods of its update type (for a state `Essay`:
/// `Essay::update()` and the methods of `EssayUpdate`).
pub(super) fn methods(state: &State) -> TokenStream {
    let State { vis, ident, update, generics, fields, .. } = state;
    let (parameters, arguments, bounds) = generics.split_for_impl();
    let write_methods = fields.iter().map(|it| it.write_method(state));
    let goto = (!fields.iter().any(|it| it.ident == "goto")).then(|| {
        quote! {
            /// Combines the update with a route into a command.
            #vis fn goto<__R>(
                self,
                route: __R,
            ) -> ::graph_core::command::Command<#ident #arguments, __R> {
                ::graph_core::command::Command::new(self, route)
            }
        }
    });
    let doc = format!("Creates an empty update of [`{ident}`].");
    quote! {
        impl #parameters #ident #arguments #bounds {
            #[doc = #doc]
            #[allow(dead_code, reason = "a graph may have no node that updates the state")]
            #vis fn update() -> #update #arguments {
                ::core::default::Default::default()
            }
        }

        #[allow(dead_code, reason = "some fields may only be written by a run's input")]
        #[allow(private_bounds, reason = "a public state may have a private field of a private type")]
        impl #parameters #update #arguments #bounds {
            #(#write_methods)*
            #goto
        }
    }
}

impl Field {
    /// Generates the method of the update type that writes the field.
    fn write_method(&self, state: &State) -> TokenStream {
        let Self { ident, docs, .. } = self;
        let vis = &state.vis;
        let write_type = self.write_type(state);
        let (into, call) = if self.needs_exact_type() {
            let call =
                quote!(::graph_core::state::ExactWrite::<#write_type, __M>::into_write(value));
            (quote!(::graph_core::state::ExactWrite<#write_type, __M>), call)
        } else {
            let call =
                quote!(::graph_core::state::IntoWrite::<#write_type, __M>::into_write(value));
            (quote!(::graph_core::state::IntoWrite<#write_type, __M>), call)
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

    /// Generates the type of a value that is written to the field.
    pub(super) fn write_type(&self, state: &State) -> TokenStream {
        let ty = &self.ty;
        match &self.reducer {
            Reducer::Custom(path) => {
                let reducer = self.custom_reducer(path, state);
                quote_spanned! { self.path_span()=>
                    <#reducer as ::graph_core::reduce::Reducer<#ty>>::Update
                }
            }
            Reducer::BuiltIn(name) if name == "Append" => {
                let list = argument_of(ty, "Arc").unwrap_or(ty);
                quote!(#list)
            }
            _ => quote!(#ty),
        }
    }

    /// Returns the type whose values are stored: for an `Arc` field, the type inside the `Arc`, because serde supports
    /// `Arc` only with its `rc` feature.
    pub(super) fn stored_type(&self) -> &Type {
        let inner = argument_of(&self.ty, "Arc").filter(|_| self.unwraps_arc());
        inner.unwrap_or(&self.ty)
    }

    /// Returns the name under which checkpoints store the field's reducer. It does not depend on the names of
    /// user-defined types and functions, so that these can be renamed.
    pub(super) fn reducer_name(&self) -> String {
        match &self.reducer {
            Reducer::BuiltIn(name) => name.to_string().to_lowercase(),
            Reducer::Upsert { .. } => "upsert".to_owned(),
            Reducer::Custom(_) | Reducer::Function(_) => "custom".to_owned(),
        }
    }

    /// Returns whether a written value replaces the field's value, and two writes in one step are a conflict.
    pub(super) fn keeps_last(&self) -> bool {
        matches!(&self.reducer, Reducer::BuiltIn(name) if name == "Last")
    }

    /// Returns whether the type of a written value is known to be the field's type.
    pub(super) fn writes_field_type(&self) -> bool {
        !matches!(self.reducer, Reducer::Custom(_)) && !self.unwraps_arc()
    }

    /// Returns whether the field is an `Arc` and its reducer works on the value inside it.
    pub(super) fn unwraps_arc(&self) -> bool {
        let supports_arc = match &self.reducer {
            Reducer::BuiltIn(name) => name == "Append",
            Reducer::Custom(_) => true,
            Reducer::Function(_) | Reducer::Upsert { .. } => false,
        };
        supports_arc && argument_of(&self.ty, "Arc").is_some()
    }

    fn needs_exact_type(&self) -> bool {
        self.writes_field_type() && is_named(&self.ty, &NUMBERS)
    }
}
