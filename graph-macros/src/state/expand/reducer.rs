//! The types that reduce the fields.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};

use super::super::check::{Field, Key, Reducer, State};
use crate::syntax::place_of;

/// The impls behind `with = function` and `upsert(key)`, on one type that only this code can name.
pub(super) fn own_reducers(state: &State) -> Option<TokenStream> {
    let impls: Vec<_> =
        state.fields.iter().enumerate().filter_map(|(n, it)| it.own_reducer(state, n)).collect();
    (!impls.is_empty()).then(|| {
        quote! {
            #[allow(dead_code, reason = "it is a name for the compiler, never a value")]
            pub struct __Rule<__S, const FIELD: usize>(::core::marker::PhantomData<__S>);
            #(#impls)*
        }
    })
}

impl Field {
    /// The type that reduces the field.
    pub(super) fn reducer(&self, state: &State, index: usize) -> TokenStream {
        let span = self.blamed();
        match &self.reducer {
            Reducer::Known(name) => quote_spanned!(span=> ::graph_core::reduce::#name),
            Reducer::Own(path) => quote!(#path),
            Reducer::With(_) => self.rule(state, index),
            Reducer::Upsert { .. } => {
                let rule = self.rule(state, index);
                quote_spanned!(span=> ::graph_core::reduce::Upsert<#rule>)
            }
        }
    }

    /// What the user sees underlined when the reducer does not fit the field.
    pub(super) fn blamed(&self) -> Span {
        match &self.reducer {
            Reducer::Known(name) => place_of(name),
            Reducer::Own(path) => place_of(path),
            Reducer::With(function) => place_of(function),
            Reducer::Upsert { key, .. } => place_of(&key.path),
        }
    }

    fn rule(&self, state: &State, index: usize) -> TokenStream {
        let (_, arguments, _) = state.generics.split_for_impl();
        let ident = &state.ident;
        quote_spanned!(self.blamed()=> __Rule<#ident #arguments, #index>)
    }

    fn own_reducer(&self, state: &State, index: usize) -> Option<TokenStream> {
        let ty = &self.ty;
        let (parameters, _, bounds) = state.generics.split_for_impl();
        let rule = self.rule(state, index);
        match &self.reducer {
            Reducer::Known(_) | Reducer::Own(_) => None,
            Reducer::With(function) => {
                let call = quote_spanned!(self.blamed()=> #function(__current, __update));
                Some(quote! {
                    impl #parameters ::graph_core::reduce::Reducer<#ty> for #rule #bounds {
                        type Update = #ty;
                        fn fold(__current: &mut #ty, __update: #ty) {
                            #call
                        }
                        fn replace(__current: &mut #ty, __update: #ty) {
                            *__current = __update;
                        }
                    }
                })
            }
            Reducer::Upsert { item, key: Key { path, ty } } => {
                let key = quote_spanned!(self.blamed()=> __item.#path.to_owned());
                Some(quote! {
                    impl #parameters ::graph_core::reduce::Keyed<#item> for #rule #bounds {
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
