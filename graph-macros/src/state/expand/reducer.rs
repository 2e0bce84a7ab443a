//! Code generation for the reducer types of the fields.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Path, spanned::Spanned as _};

use super::super::check::{Field, Key, Reducer, State};
use crate::syntax::span_of;

/// Generates a type that is private to the generated code and implements the traits that `with = function` and
/// `upsert(key)` need. Returns `None` if no field needs the type.
pub(super) fn generated_reducers(state: &State) -> Option<TokenStream> {
    let impls: Vec<_> = state
        .fields
        .iter()
        .enumerate()
        .filter_map(|(n, it)| it.generated_reducer(state, n))
        .collect();
    (!impls.is_empty()).then(|| {
        quote! {
            #[allow(dead_code, reason = "only used as a type, never constructed")]
            pub struct __FieldReducer<__S, const FIELD: usize>(::core::marker::PhantomData<__S>);
            #(#impls)*
        }
    })
}

impl Field {
    /// Generates the path of the field's reducer type.
    pub(super) fn reducer(&self, state: &State, index: usize) -> TokenStream {
        let span = self.error_span();
        match &self.reducer {
            Reducer::BuiltIn(name) => quote_spanned!(span=> ::graph_core::reduce::#name),
            Reducer::Custom(path) => self.custom_reducer(path, state),
            Reducer::Function(_) => self.generated_type(state, index),
            Reducer::Upsert { .. } => {
                let keyed = self.generated_type(state, index);
                quote_spanned!(span=> ::graph_core::reduce::Upsert<#keyed>)
            }
        }
    }

    /// Generates the type of a user-defined reducer.
    ///
    /// A constant checks the type, so that a type that is not a reducer causes only one error. A constant cannot use
    /// generic parameters, so the reducers of generic states are not checked.
    pub(super) fn custom_reducer(&self, path: &Path, state: &State) -> TokenStream {
        let ty = &self.ty;
        if !state.generics.params.is_empty() {
            return quote!(#path);
        }
        quote_spanned! { self.path_span()=>
            <::graph_core::checked::Checked<
                { ::graph_core::checked::reducer::<#path, #ty>() }
            > as ::graph_core::checked::Then<#path>>::Type
        }
    }

    /// Returns the span of the reducer in the attribute. Errors about a reducer that does not support the field point
    /// to this span.
    pub(super) fn error_span(&self) -> Span {
        match &self.reducer {
            Reducer::BuiltIn(name) => span_of(name),
            Reducer::Custom(path) => span_of(path),
            Reducer::Function(function) => span_of(function),
            Reducer::Upsert { key, .. } => span_of(&key.path),
        }
    }

    /// Returns the span for paths that contain the reducer but no names of local variables. The errors of all uses of a
    /// custom reducer are then equal, and the compiler prints them once.
    pub(super) fn path_span(&self) -> Span {
        match &self.reducer {
            Reducer::Custom(path) => path.span(),
            _ => self.error_span(),
        }
    }

    fn generated_type(&self, state: &State, index: usize) -> TokenStream {
        let (_, arguments, _) = state.generics.split_for_impl();
        let ident = &state.ident;
        quote_spanned!(self.error_span()=> __FieldReducer<#ident #arguments, #index>)
    }

    fn generated_reducer(&self, state: &State, index: usize) -> Option<TokenStream> {
        let ty = &self.ty;
        let (parameters, _, bounds) = state.generics.split_for_impl();
        let generated = self.generated_type(state, index);
        match &self.reducer {
            Reducer::BuiltIn(_) | Reducer::Custom(_) => None,
            // If the function has another signature, the error shows the type of `__reduce` as the expected type.
            Reducer::Function(function) => Some(quote! {
                impl #parameters ::graph_core::reduce::Reducer<#ty> for #generated #bounds {
                    type Update = #ty;
                    fn fold(__current: &mut #ty, __update: #ty) {
                        let __reduce: fn(&mut #ty, #ty) = #function;
                        __reduce(__current, __update)
                    }
                    fn replace(__current: &mut #ty, __update: #ty) {
                        *__current = __update;
                    }
                }
            }),
            Reducer::Upsert { item, key: Key { path, ty } } => {
                let key = quote_spanned!(self.error_span()=> __item.#path.to_owned());
                Some(quote! {
                    impl #parameters ::graph_core::reduce::Keyed<#item> for #generated #bounds {
                        type Key = #ty;
                        fn key(__item: &#item) -> #ty {
                            #key
                        }
                    }
                })
            }
        }
    }
}
