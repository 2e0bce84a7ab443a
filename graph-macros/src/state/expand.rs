//! The code of a state: its update type, and the impls that the engine works with.

mod reducer;
mod update;

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};

use self::{
    reducer::own_reducers,
    update::{methods, update_type},
};
use super::check::{Field, Lifetime, State};
use crate::syntax::place_of;

pub(super) fn expand(state: &State) -> TokenStream {
    let update = update_type(state);
    let own = own_reducers(state);
    let impls = [methods(state), state_impl(state), conversions(state)];
    quote! {
        #update
        const _: () = {
            type __Result<T> = ::core::result::Result<T, ::graph_core::state::FieldError>;
            #own
            #(#impls)*
        };
    }
}

fn state_impl(state: &State) -> TokenStream {
    let State { ident, update, generics, version, fields, .. } = state;
    let (parameters, arguments, bounds) = generics.split_for_impl();
    let version = version.map(|it| quote!(const VERSION: u32 = #it;));
    let indices: Vec<usize> = (0..fields.len()).collect();
    let constants = fields.iter().zip(&indices).map(|(it, index)| it.constant(state, *index));
    let folds = fields.iter().zip(&indices).map(|(it, index)| it.fold(state, *index));
    let inputs = fields.iter().map(Field::as_input);
    let idents: Vec<_> = fields.iter().map(|it| &it.ident).collect();
    let names: Vec<_> = fields.iter().map(|it| &it.name).collect();
    let (values, setters): (Vec<_>, Vec<_>) = fields.iter().map(Field::json).unzip();
    let (pushes, pulls): (Vec<_>, Vec<_>) = fields.iter().map(Field::write_json).unzip();
    let clears = fields.iter().zip(&indices).filter(|(it, _)| it.lifetime != Lifetime::Kept).map(
        |(Field { ident, .. }, index)| {
            quote!(#index => self.#ident = ::core::default::Default::default(),)
        },
    );
    quote! {
        #[automatically_derived]
        impl #parameters ::graph_core::State for #ident #arguments #bounds {
            type Update = #update #arguments;
            #version

            fn fields(&self) -> &[::graph_core::state::Field] {
                const { &[#(#constants),*] }
            }

            fn touched(&self, __update: &Self::Update) -> ::graph_core::state::Touched {
                let mut __touched = ::graph_core::state::Touched::default();
                #(__touched.note(#indices, &__update.#idents);)*
                __touched
            }

            fn fold(
                &mut self,
                __update: &mut Self::Update,
                __fold: &mut ::graph_core::state::Fold,
            ) -> __Result<()> {
                #(#folds)*
                ::core::result::Result::Ok(())
            }

            fn into_update(self) -> Self::Update {
                let mut __update = <Self::Update as ::core::default::Default>::default();
                #(#inputs)*
                __update
            }

            fn clear(&mut self, __field: usize) {
                match __field {
                    #(#clears)*
                    _ => {}
                }
            }

            fn value(
                &self,
                __field: usize,
            ) -> __Result<::core::option::Option<::graph_core::serde_json::Value>> {
                match __field {
                    #(#indices => #values,)*
                    _ => ::core::result::Result::Ok(::core::option::Option::None),
                }
            }

            fn set_value(
                &mut self,
                __field: usize,
                __value: ::graph_core::serde_json::Value,
            ) -> __Result<()> {
                match __field {
                    #(#indices => #setters,)*
                    _ => {}
                }
                ::core::result::Result::Ok(())
            }

            fn writes(
                &self,
                __update: &Self::Update,
            ) -> __Result<::std::vec::Vec<::graph_core::state::FieldWrite>> {
                let mut __writes = ::std::vec::Vec::new();
                #(#pushes)*
                ::core::result::Result::Ok(__writes)
            }

            fn update_from(
                &self,
                __writes: ::std::vec::Vec<::graph_core::state::FieldWrite>,
            ) -> __Result<Self::Update> {
                let mut __update = <Self::Update as ::core::default::Default>::default();
                for __write in __writes {
                    match __write.field.as_str() {
                        #(#names => #pulls,)*
                        _ => return ::core::result::Result::Err(::graph_core::state::FieldError::new(
                            __write.field,
                            "the state has no such field; if it was renamed or removed, \
                             raise the state's version and add a migration",
                        )),
                    }
                }
                ::core::result::Result::Ok(__update)
            }
        }
    }
}

/// What else an update can do: start empty, be copied and shown, and become what the engine takes.
fn conversions(State { ident, update, generics, fields, .. }: &State) -> TokenStream {
    let (parameters, arguments, bounds) = generics.split_for_impl();
    let idents: Vec<_> = fields.iter().map(|it| &it.ident).collect();
    let names = fields.iter().map(|it| &it.name);
    let shown = update.to_string();
    let used = (!generics.params.is_empty()).then(|| quote!(__state: ::core::marker::PhantomData,));
    quote! {
        #[automatically_derived]
        impl #parameters ::core::default::Default for #update #arguments #bounds {
            fn default() -> Self {
                Self { #(#idents: ::core::option::Option::None,)* #used }
            }
        }

        #[automatically_derived]
        impl #parameters ::core::clone::Clone for #update #arguments #bounds {
            fn clone(&self) -> Self {
                Self { #(#idents: ::core::clone::Clone::clone(&self.#idents),)* #used }
            }
        }

        #[automatically_derived]
        impl #parameters ::core::fmt::Debug for #update #arguments #bounds {
            fn fmt(&self, __f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                let mut __written = __f.debug_tuple(#shown);
                #(if self.#idents.is_some() {
                    __written.field(&::core::format_args!("{}", #names));
                })*
                __written.finish()
            }
        }

        #[automatically_derived]
        impl #parameters ::graph_core::node::IntoOutcome<#ident #arguments>
            for #update #arguments #bounds
        {
            fn into_outcome(
                self,
            ) -> ::core::result::Result<::graph_core::node::Outcome, ::graph_core::NodeError> {
                ::core::result::Result::Ok(
                    ::graph_core::node::Outcome::update::<#ident #arguments>(self),
                )
            }
        }

        #[automatically_derived]
        impl #parameters ::core::convert::From<#update #arguments>
            for ::graph_core::Input<#ident #arguments> #bounds
        {
            fn from(__update: #update #arguments) -> Self {
                ::graph_core::Input::update(__update)
            }
        }
    }
}

impl Field {
    fn constant(&self, state: &State, index: usize) -> TokenStream {
        let Self { name, ty, input, output, .. } = self;
        let reducer = self.reducer(state, index);
        let lifetime = match self.lifetime {
            Lifetime::Kept => quote!(Kept),
            Lifetime::Step => quote!(Step),
            Lifetime::Run => quote!(Run),
        };
        quote_spanned! { self.blamed()=>
            ::graph_core::state::Field::new(#name)
                .many_writers(<#reducer as ::graph_core::reduce::Reducer<#ty>>::MANY_WRITERS)
                .lifetime(::graph_core::state::Lifetime::#lifetime)
                .visible(#input, #output)
        }
    }

    fn fold(&self, state: &State, index: usize) -> TokenStream {
        let Self { ident, ty, .. } = self;
        let reducer = self.reducer(state, index);
        quote_spanned! { self.blamed()=>
            __fold.field::<#reducer, #ty>(#index, &mut self.#ident, &mut __update.#ident)?;
        }
    }

    fn as_input(&self) -> Option<TokenStream> {
        let ident = &self.ident;
        let value = if self.is_written_whole() {
            quote!(self.#ident)
        } else if self.is_shared() {
            quote!(::core::convert::Into::into(::std::sync::Arc::unwrap_or_clone(self.#ident)))
        } else {
            quote_spanned!(place_of(&self.ty)=> ::core::convert::Into::into(self.#ident))
        };
        self.input.then(|| {
            quote! {
                __update.#ident = ::core::option::Option::Some(
                    ::graph_core::state::Write { value: #value, overwrite: false },
                );
            }
        })
    }

    /// How the field is turned into JSON, and set from it.
    ///
    /// What an `Arc` holds is taken by itself, as serde knows `Arc` only by a feature of its own.
    fn json(&self) -> (TokenStream, TokenStream) {
        let Self { ident, name, ty, .. } = self;
        let value = quote_spanned!(place_of(ty)=> self.#ident);
        let new = quote_spanned! { place_of(ty)=>
            ::graph_core::state::derive::from_value(#name, __value)?
        };
        let (old, new) = if self.is_shared() {
            (quote!(*#value), quote!(::std::sync::Arc::new(#new)))
        } else {
            (value.clone(), new)
        };
        let get = quote_spanned! { place_of(ty)=>
            ::graph_core::state::derive::to_value(#name, &#old)
        };
        (get, quote!(#value = #new))
    }

    /// How a write of the field is turned into JSON, and made from it.
    fn write_json(&self) -> (TokenStream, TokenStream) {
        let Self { ident, name, ty, .. } = self;
        let push = quote_spanned! { place_of(ty)=>
            ::graph_core::state::derive::push_write(&mut __writes, #name, &__update.#ident)?;
        };
        let pull = quote_spanned! { place_of(ty)=>
            __update.#ident = ::graph_core::state::derive::pull_write(__write)?
        };
        (push, pull)
    }
}
