//! `#[derive(IntoModel)]`: opens the ids of a request.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use serde_derive_internals::ast::Container;
use serde_derive_internals::{Ctxt, Derive};
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Path, Result};

use crate::attr::{
    FieldOptions, crate_path, each_option, field_options, named_fields, or_default, value,
};

/// `#[model(…)]` of the struct.
#[derive(Default)]
struct Options {
    model: Option<Path>,
    with: Option<Path>,
    has_rest: bool,
    krate: Option<Path>,
}

pub(crate) fn expand(input: &DeriveInput, default_crate: &str) -> Result<TokenStream> {
    let fields = named_fields(input, "Request", "implement `IntoModel` by hand")?;
    let Options { model, with: with_all, has_rest, krate } = options(input)?;
    let model = model.ok_or_else(|| {
        Error::new(
            input.ident.span(),
            "a request needs the type that it becomes; write `#[model(into = NewUser)]`",
        )
    })?;
    let krate = or_default(krate, default_crate)?;
    // Of attributes that it does not know, serde's own derive reports the errors.
    let context = Ctxt::new();
    let as_serde_sees_it =
        Container::from_ast(&context, input, Derive::Deserialize, &format_ident!("__private"));
    let _ = context.check();
    let named = as_serde_sees_it.iter().flat_map(|it| it.data.all_fields());
    let named: Vec<_> = named.map(|field| &field.attrs).collect();
    let mut values = Vec::new();
    for (i, field) in fields.enumerate() {
        let Some(name) = &field.ident else { continue };
        let FieldOptions { rename, with, .. } = field_options(
            field,
            "model",
            "a function that takes the opened value; write `with = Set`",
            "unknown option; the options of a request's field are `rename` and `with`",
        )?;
        let into = rename.as_ref().unwrap_or(name);
        let serde = named.get(i);
        let shown = serde.map_or(name.to_string(), |it| it.name().deserialize_name().value.clone());
        // At the type's place, where the errors belong.
        let at = field.ty.span();
        let opening = quote!(#krate::__private::Opening::of(&self.#name));
        let opened = quote_spanned!(at=> (&&#opening).open(self.#name, keyring));
        // serde has a flattened field's own fields in its place.
        let opened = match serde.is_some_and(|it| it.flatten()) {
            true => quote_spanned!(at=> #opened?),
            false => quote_spanned!(at=> #opened.map_err(|error| error.in_field(#shown))?),
        };
        let opened = match with.as_ref().or(with_all.as_ref()) {
            Some(with) => quote_spanned!(with.span()=> #with(#opened)),
            None => opened,
        };
        values.push(quote!(#into: #opened));
    }
    let rest = has_rest.then(|| quote!(..::core::default::Default::default()));
    let request = &input.ident;
    Ok(quote! {
        #[automatically_derived]
        impl #krate::IntoModel<#model> for #request {
            #[allow(unused_imports, unused_variables, clippy::needless_update)]
            fn into_model(
                self,
                keyring: &#krate::Keyring,
            ) -> ::core::result::Result<#model, #krate::RequestError> {
                use #krate::__private::{OpenByModel as _, OpenNothing as _};
                ::core::result::Result::Ok(#model { #(#values,)* #rest })
            }
        }
    })
}

fn options(input: &DeriveInput) -> Result<Options> {
    let mut options = Options::default();
    each_option(&input.attrs, "model", |name, meta| {
        match name {
            "into" => options.model = Some(value(meta, "a struct; write `into = NewUser`")?),
            "with" => options.with = Some(value(meta, "a function; write `with = Set`")?),
            "default" => options.has_rest = true,
            "crate" => options.krate = Some(crate_path(meta)?),
            _ => {
                return Err(meta.error(
                    "unknown option; the options of a request are `into`, `with`, `default` and `crate`",
                ));
            }
        }
        Ok(())
    })?;
    Ok(options)
}
