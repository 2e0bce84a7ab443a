//! Code generation for states: the update type and the trait implementations.

mod reducer;
mod update;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned as _;

use self::{
    reducer::generated_reducers,
    update::{methods, update_type},
};
use super::check::{Field, Lifetime, State};
use crate::syntax::span_of;

pub(super) fn expand(state: &State) -> TokenStream {
    let update = update_type(state);
    let reducers = generated_reducers(state);
    let impls = [methods(state), state_impl(state), conversions(state)];
    let untracked = state.fields.iter().any(|it| it.lifetime == Lifetime::Run).then(|| {
        quote! {
            #[allow(unused_imports, reason = "which trait is used depends on the type of the field")]
            use ::graph_core::state::untracked::{
                self as __untracked, ReadNothing as _, ReadSerialised as _, ShowNothing as _,
                ShowSerialised as _,
            };
        }
    });
    quote! {
        #update
        const _: () = {
            type __Result<T> = ::core::result::Result<T, ::graph_core::state::FieldError>;
            #untracked
            #reducers
            #(#impls)*
        };
    }
}

fn state_impl(state: &State) -> TokenStream {
    let State { ident, update, generics, version, fields, .. } = state;
    let (parameters, arguments, bounds) = generics.split_for_impl();
    // If the struct does not implement `Clone`, each use of `Self::Update` would cause another error.
    let update = quote!(#update #arguments);
    let version = version.map(|it| quote!(const VERSION: u32 = #it;));
    let indices: Vec<usize> = (0..fields.len()).collect();
    let metadata = fields.iter().zip(&indices).map(|(it, index)| it.metadata(state, *index));
    let folds = fields.iter().zip(&indices).map(|(it, index)| it.fold(state, *index));
    let inputs = fields.iter().map(Field::input_write);
    let idents: Vec<_> = fields.iter().map(|it| &it.ident).collect();
    let names: Vec<_> = fields.iter().map(|it| &it.name).collect();
    let (getters, setters): (Vec<_>, Vec<_>) = fields.iter().map(Field::json_accessors).unzip();
    let (pushes, pulls): (Vec<_>, Vec<_>) =
        fields.iter().map(|it| it.write_conversions(state)).unzip();
    let differences = fields.iter().zip(&indices).map(|(it, index)| it.difference(state, *index));
    let clears = fields.iter().zip(&indices).filter(|(it, _)| it.lifetime != Lifetime::Persistent).map(
        |(Field { ident, .. }, index)| {
            quote!(#index => self.#ident = ::core::default::Default::default(),)
        },
    );
    quote! {
        #[automatically_derived]
        impl #parameters ::graph_core::State for #ident #arguments #bounds {
            type Update = #update;
            #version

            fn fields(&self) -> &[::graph_core::state::Field] {
                const { &[#(#metadata),*] }
            }

            fn write_set(&self, __update: &#update) -> ::graph_core::state::WriteSet {
                let mut __write_set = ::graph_core::state::WriteSet::default();
                #(__write_set.add(#indices, &__update.#idents);)*
                __write_set
            }

            fn fold(
                &mut self,
                __update: &mut #update,
                __fold: &mut ::graph_core::state::Fold,
            ) -> __Result<()> {
                #(#folds)*
                ::core::result::Result::Ok(())
            }

            fn into_update(self) -> #update {
                let mut __update = <#update as ::core::default::Default>::default();
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
                    #(#indices => #getters,)*
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

            fn copy_field(&mut self, __field: usize, __from: &Self) {
                match __field {
                    #(#indices => ::core::clone::Clone::clone_from(&mut self.#idents, &__from.#idents),)*
                    _ => {}
                }
            }

            fn update_to_writes(
                __update: &#update,
            ) -> __Result<::std::vec::Vec<::graph_core::state::FieldWrite>> {
                let mut __writes = ::std::vec::Vec::new();
                #(#pushes)*
                ::core::result::Result::Ok(__writes)
            }

            fn update_from(
                &self,
                __writes: ::std::vec::Vec<::graph_core::state::FieldWrite>,
            ) -> __Result<#update> {
                let mut __update = <#update as ::core::default::Default>::default();
                for __write in __writes {
                    match __write.field.as_str() {
                        #(#names => #pulls,)*
                        _ => return ::core::result::Result::Err(::graph_core::state::FieldError::new(
                            __write.field,
                            "the state does not contain this field; if the field was renamed or removed, \
                             increase the state's version and add `Migrations::rename` or `Migrations::remove`",
                        )),
                    }
                }
                ::core::result::Result::Ok(__update)
            }

            fn update_since(&self, __before: &Self) -> __Result<#update> {
                let mut __update = <#update as ::core::default::Default>::default();
                #(#differences)*
                ::core::result::Result::Ok(__update)
            }
        }
    }
}

/// Generates implementations of standard traits for the update type, and its conversions into a node's output and a
/// run's input.
fn conversions(State { ident, update, generics, fields, .. }: &State) -> TokenStream {
    let (parameters, arguments, bounds) = generics.split_for_impl();
    let idents: Vec<_> = fields.iter().map(|it| &it.ident).collect();
    let names = fields.iter().map(|it| &it.name);
    let type_name = update.to_string();
    let marker =
        (!generics.params.is_empty()).then(|| quote!(__state: ::core::marker::PhantomData,));
    quote! {
        #[automatically_derived]
        impl #parameters ::core::default::Default for #update #arguments #bounds {
            fn default() -> Self {
                Self { #(#idents: ::core::option::Option::None,)* #marker }
            }
        }

        #[automatically_derived]
        impl #parameters ::core::clone::Clone for #update #arguments #bounds {
            fn clone(&self) -> Self {
                Self { #(#idents: ::core::clone::Clone::clone(&self.#idents),)* #marker }
            }
        }

        #[automatically_derived]
        impl #parameters ::core::fmt::Debug for #update #arguments #bounds {
            fn fmt(&self, __f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                let mut __written = __f.debug_tuple(#type_name);
                #(if self.#idents.is_some() {
                    __written.field(&::core::format_args!("{}", #names));
                })*
                __written.finish()
            }
        }

        #[automatically_derived]
        impl #parameters ::graph_core::node::IntoNodeOutput<#ident #arguments>
            for #update #arguments #bounds
        {
            fn into_node_output(
                self,
            ) -> ::core::result::Result<::graph_core::node::NodeOutput, ::graph_core::NodeError> {
                ::core::result::Result::Ok(
                    ::graph_core::node::NodeOutput::update::<#ident #arguments>(self),
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
    /// Generates the expression that creates the field's `graph_core::state::Field`.
    fn metadata(&self, state: &State, index: usize) -> TokenStream {
        let Self { name, ty, input, output, .. } = self;
        let reducer = self.reducer(state, index);
        let reducer_name = self.reducer_name();
        let many_writers = match self.lifetime {
            _ if self.keeps_last() => quote!(false),
            _ => quote_spanned! { self.path_span()=>
                <#reducer as ::graph_core::reduce::Reducer<#ty>>::MANY_WRITERS
            },
        };
        let lifetime = match self.lifetime {
            Lifetime::Persistent => quote!(Persistent),
            Lifetime::Step => quote!(Step),
            Lifetime::Run => quote!(Run),
        };
        quote_spanned! { self.error_span()=>
            ::graph_core::state::Field::new(#name)
                .reducer(#reducer_name)
                .many_writers(#many_writers)
                .lifetime(::graph_core::state::Lifetime::#lifetime)
                .visible(#input, #output)
        }
    }

    /// Generates the statement that folds the field's write into the state.
    fn fold(&self, state: &State, index: usize) -> TokenStream {
        let Self { ident, ty, .. } = self;
        if self.keeps_last() {
            return quote!(__fold.replace(#index, &mut self.#ident, &mut __update.#ident););
        }
        let reducer = self.reducer(state, index);
        let method = quote_spanned!(self.path_span()=> .field::<#reducer, #ty>);
        let arguments = quote!(#index, &mut self.#ident, &mut __update.#ident);
        let call = quote_spanned!(self.path_span()=> #method(#arguments));
        quote!(__fold #call?;)
    }

    /// Generates the statement of `update_since` that writes the field if its value changed.
    ///
    /// Untracked fields are skipped, because their values cannot be compared.
    fn difference(&self, state: &State, index: usize) -> TokenStream {
        let Self { ident, name, ty, .. } = self;
        if self.lifetime == Lifetime::Run {
            return TokenStream::new();
        }
        // If the struct does not implement `Clone`, a call of `self.value(..)` would cause another error.
        let json = |state: TokenStream| {
            let (to_value, _) = self.conversions(self.stored_type());
            self.call(&to_value, &quote!(&#state.#ident, #name))
        };
        let (before, after) = (json(quote!(__before)), json(quote!(self)));
        if self.keeps_last() {
            return quote! {
                __update.#ident = ::graph_core::state::derive::replacement(
                    &(#before?, #after?),
                    &self.#ident,
                );
            };
        }
        let reducer = self.reducer(state, index);
        let function = quote_spanned! { self.path_span()=>
            <#reducer as ::graph_core::reduce::Reducer<#ty>>::difference
        };
        let arguments = quote!(&__before.#ident, &self.#ident);
        let difference = quote_spanned!(self.path_span()=> #function(#arguments));
        quote! {
            __update.#ident = ::graph_core::state::derive::difference(
                #name,
                (#before?, #after?),
                || #difference,
            )?;
        }
    }

    /// Generates the statement of `into_update` that writes the field's value. Returns `None` if the field is not part
    /// of the input.
    fn input_write(&self) -> Option<TokenStream> {
        let ident = &self.ident;
        let value = if self.writes_field_type() {
            quote!(self.#ident)
        } else if self.unwraps_arc() {
            quote!(::core::convert::Into::into(::std::sync::Arc::unwrap_or_clone(self.#ident)))
        } else {
            quote_spanned!(span_of(&self.ty)=> ::core::convert::Into::into(self.#ident))
        };
        self.input.then(|| {
            quote! {
                __update.#ident = ::core::option::Option::Some(
                    ::graph_core::state::Write { value: #value, overwrite: false },
                );
            }
        })
    }

    /// Generates the conversion of the field to JSON, and the assignment of the field from JSON.
    ///
    /// For an `Arc` field, the generated code converts the value inside the `Arc`, because serde supports `Arc` only
    /// with its `rc` feature.
    fn json_accessors(&self) -> (TokenStream, TokenStream) {
        let Self { ident, name, .. } = self;
        if self.lifetime == Lifetime::Run {
            let get = quote!((&__untracked::Shown(&self.#ident)).to_value(#name));
            return (get, quote!(::core::mem::drop(__value)));
        }
        let (to_value, from_value) = self.conversions(self.stored_type());
        let get = self.call(&to_value, &quote!(&self.#ident, #name));
        let new = self.call(&from_value, &quote!(#name, __value));
        let new = quote!(#new?);
        let new = if self.unwraps_arc() { quote!(::std::sync::Arc::new(#new)) } else { new };
        (get, quote!(self.#ident = #new))
    }

    /// Generates the conversions of the field's write to and from JSON.
    fn write_conversions(&self, state: &State) -> (TokenStream, TokenStream) {
        let Self { ident, name, ty, .. } = self;
        if self.lifetime == Lifetime::Run {
            let push = quote! {
                if let ::core::option::Option::Some(__write) = &__update.#ident {
                    if let ::core::option::Option::Some(value) =
                        (&__untracked::Shown(&__write.value)).to_value(#name)?
                    {
                        __writes.push(::graph_core::state::FieldWrite {
                            field: ::std::string::String::from(#name),
                            value,
                            overwrite: __write.overwrite,
                        });
                    }
                }
            };
            let stored = quote!(__untracked::Stored::<#ty>(::core::marker::PhantomData));
            return (push, quote!(__update.#ident = (&#stored).pull(__write)?));
        }
        let (to_value, from_value) = self.conversions(&self.write_type(state));
        let push_write = quote_spanned!(self.ty.span()=> ::graph_core::state::derive::push_write);
        let push =
            self.call(&push_write, &quote!(&mut __writes, #name, &__update.#ident, #to_value));
        let push = quote!(#push?;);
        let new = self.call(&from_value, &quote!(#name, __write.value));
        let pull = quote! {
            __update.#ident = ::core::option::Option::Some(::graph_core::state::Write {
                overwrite: __write.overwrite,
                value: #new?,
            })
        };
        (push, pull)
    }

    /// Generates the paths of the functions that convert a value of the field to and from JSON.
    ///
    /// The paths of these functions and the calls to them have the span of the field's type, which is the user's code.
    /// If the type cannot be converted, the compiler therefore reports the same error at the same place for each use,
    /// and prints it once.
    fn conversions(&self, ty: &impl ToTokens) -> (TokenStream, TokenStream) {
        let span = self.ty.span();
        let to_value = quote_spanned!(span=> <#ty as ::graph_core::state::FieldValue>::to_value);
        let from_value =
            quote_spanned!(span=> <#ty as ::graph_core::state::FieldValue>::from_value);
        (to_value, from_value)
    }

    /// Generates a call that has the span of the field's type. The arguments keep their spans, because they contain
    /// names of local variables.
    fn call(&self, function: &TokenStream, arguments: &TokenStream) -> TokenStream {
        quote_spanned!(self.ty.span()=> #function(#arguments))
    }
}
