//! Generates the impl of `OpaqueId`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Result, Type, parse_quote};

use crate::attr::{Options, or_default};

pub(crate) fn expand(input: &DeriveInput, default_crate: &str) -> Result<TokenStream> {
    let Options { prefix, domain, key, form, internal, krate } = Options::parse(input)?;
    let krate = or_default(krate, default_crate)?;
    let key = match key {
        Some(key) if is_kind(&key) => quote!(#krate::key::#key),
        Some(key) => quote!(#key),
        None => quote!(#krate::key::Uuid7),
    };
    // The whole path gets the form's span, because the error for a key without this form points there.
    let form: TokenStream = quote!(#krate::form::#form)
        .into_iter()
        .map(|mut token| {
            token.set_span(form.span());
            token
        })
        .collect();

    let internal = match internal {
        Some(newtype) => quote!(#newtype),
        None => quote!(#krate::Internal<Self>),
    };

    let ident = &input.ident;
    let mut generics = input.generics.clone();
    for param in input.generics.type_params() {
        let param = &param.ident;
        generics.make_where_clause().predicates.push(parse_quote!(#param: 'static));
    }
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();

    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #krate::OpaqueId for #ident #type_generics #where_clause {
            type Key = #key;
            type Form = #form;
            type Internal = #internal;
            const PREFIX: &'static str = #prefix;
            const DOMAIN: &'static str = #domain;

            fn slot() -> &'static #krate::__private::Slot {
                static SLOT: #krate::__private::Slot = #krate::__private::Slot::new(#prefix, #domain);
                &SLOT
            }
        }
    })
}

/// Returns whether a key is the bare name of a kind. Such a name needs no import, like a form.
fn is_kind(key: &Type) -> bool {
    const KINDS: [&str; 4] = ["StructuredKey", "Ulid", "Uuid", "Uuid7"];
    matches!(key, Type::Path(key) if KINDS.iter().any(|kind| key.path.is_ident(kind)))
}
