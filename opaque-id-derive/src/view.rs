//! `#[derive(View)]`: fills a view from its model.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Field, Path, Result, Type};

use crate::attr::{self, FieldOptions, crate_path, each_option, named_fields, or_default, value};

/// `#[view(…)]` of the struct.
#[derive(Default)]
struct Options {
    models: Vec<Type>,
    krate: Option<Path>,
}

pub(crate) fn expand(input: &DeriveInput, default_crate: &str) -> Result<TokenStream> {
    let fields = named_fields(input, "View", "implement `IntoView` for the model by hand")?;
    let options = options(input)?;
    let krate = or_default(options.krate, default_crate)?;

    // Fields that look at the whole model come first: the others take it apart.
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    let mut given = Vec::new();
    let (mut names, mut filled) = (Vec::new(), Vec::new());
    for field in fields {
        let Some(name) = &field.ident else { continue };
        names.push(name);
        // No field hides a name of ours.
        let field_value = format_ident!("field_{}", name.unraw());
        filled.push(field_value.clone());
        let FieldOptions { rename, with, is_given } = field_options(field)?;
        let ty = &field.ty;
        if is_given {
            given.push((field_value, ty));
        } else if let Some(with) = with {
            first.push(quote_spanned!(with.span()=> let #field_value: #ty = #with(&model);));
        } else {
            let from = rename.as_ref().unwrap_or(name);
            // At the type's place, where the errors belong.
            let at = ty.span();
            let filling = quote!(#krate::__private::Filling::<_, #ty>::of(&model.#from));
            rest.push(quote_spanned! {at=>
                let #field_value: #ty = (&&&#filling).fill(model.#from, keyring);
            });
        }
    }

    let view = &input.ident;
    let impls = options.models.iter().map(|model| {
        let (ty, pattern) = match &given[..] {
            [] => (quote!(#model), quote!(model)),
            given => {
                let types = given.iter().map(|(_, ty)| ty);
                let names = given.iter().map(|(name, _)| name);
                (quote!((#model, #(#types),*)), quote!((model, #(#names),*)))
            }
        };
        quote! {
            #[automatically_derived]
            impl #krate::IntoView<#view> for #ty {
                #[allow(unused_imports, unused_variables)]
                #[inline]
                fn into_view(self, keyring: &#krate::Keyring) -> #view {
                    use #krate::__private::{FillAsItIs as _, FillByView as _, FillNotAtAll as _};
                    let #pattern = self;
                    #(#first)*
                    #(#rest)*
                    #view { #(#names: #filled),* }
                }
            }
        }
    });
    Ok(quote!(#(#impls)*))
}

fn options(input: &DeriveInput) -> Result<Options> {
    let mut options = Options::default();
    each_option(&input.attrs, "view", |name, meta| {
        match name {
            "from" => options.models.push(value(meta, "a type; write `from = User`")?),
            "crate" => options.krate = Some(crate_path(meta)?),
            _ => {
                let known = "unknown option; the options of a view are `from` and `crate`";
                return Err(meta.error(known));
            }
        }
        Ok(())
    })?;
    if options.models.is_empty() {
        return Err(Error::new(
            input.ident.span(),
            "a view needs the type that fills it; write `#[view(from = User)]`",
        ));
    }
    Ok(options)
}

fn field_options(field: &Field) -> Result<FieldOptions> {
    let options = attr::field_options(
        field,
        "view",
        "a function that takes `&` of the model; write `with = initials`",
        "unknown option; the options of a view's field are `rename`, `with` and `given`",
    )?;
    let is_used = [options.rename.is_some(), options.with.is_some(), options.is_given];
    if is_used.into_iter().filter(|is_used| *is_used).count() > 1 {
        return Err(Error::new_spanned(
            field,
            "a field has only one of `rename`, `with` and `given`",
        ));
    }
    Ok(options)
}
