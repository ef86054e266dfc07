//! The view that a model's `#[view(into = …)]` writes: the model's item with other attributes and types.

use std::collections::HashSet;
use std::mem::take;

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote, quote_spanned};
use syn::meta::ParseNestedMeta;
use syn::parse::Parse;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, FieldsNamed, FieldsUnnamed,
    GenericArgument, Ident, Meta, Path, PathArguments, Result, Token, Type, TypePath,
    parenthesized, parse_quote,
};

use crate::attr::{argument, each_option, located, value};

#[derive(Default)]
pub(crate) struct Written {
    pub(crate) name: Option<Ident>,
    derives: Vec<Path>,
    attrs: Vec<Meta>,
}

impl Written {
    pub(crate) fn option(&mut self, name: &str, meta: &ParseNestedMeta<'_>) -> Result<bool> {
        match name {
            "into" if self.name.is_some() => {
                let wanted = "a model writes one view; write the other one by hand, with `from`";
                return Err(meta.error(wanted));
            }
            "into" => {
                let wanted = "the name of the view that is written; write `into = UserView`";
                self.name = Some(value(meta, wanted)?);
            }
            "derive" => self.derives.extend(list::<Path>(meta)?),
            "attr" => self.attrs.extend(list::<Meta>(meta)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(crate) fn expand(
        &self,
        view: &Ident,
        model: &DeriveInput,
        krate: &Path,
    ) -> Result<TokenStream> {
        let Self { derives, attrs, .. } = self;
        let (name, (_, generics, _)) = (&model.ident, model.generics.split_for_impl());
        let ty: Type = parse_quote!(#name #generics);
        let path = krate.to_token_stream().to_string();
        let is_into_model =
            |path: &Path| path.segments.last().is_some_and(|it| it.ident == "IntoModel");
        let model_attr = derives.iter().any(is_into_model);
        let model_attr = model_attr.then(|| quote!(#[model(into = #ty, crate = #path)]));
        let mut item = DeriveInput { ident: view.clone(), ..model.clone() };
        let derived = quote! {
            #[derive(#(#derives,)* #krate::View)]
            #[view(from = #ty, crate = #path)]
            #model_attr
        };
        item.attrs = with_copied(&model.attrs, &derived, attrs);
        match &mut item.data {
            Data::Struct(data) => write_fields(&mut data.fields, &ty, krate)?,
            Data::Enum(data) => {
                for variant in &mut data.variants {
                    let mut attrs = Vec::new();
                    each_option(&variant.attrs, "view", |name, meta| match name {
                        "attr" => list::<Meta>(meta).map(|list| attrs.extend(list)),
                        _ => Err(meta.error("unknown option; a variant of a model has `attr`")),
                    })?;
                    variant.attrs = with_copied(&variant.attrs, &TokenStream::new(), &attrs);
                    variant.discriminant = None;
                    write_fields(&mut variant.fields, &ty, krate)?;
                }
            }
            Data::Union(_) => {}
        }
        Ok(item.into_token_stream())
    }
}

fn list<T: Parse>(meta: &ParseNestedMeta<'_>) -> Result<Punctuated<T, Token![,]>> {
    let content;
    parenthesized!(content in meta.input);
    content.parse_terminated(T::parse, Token![,])
}

/// Copies documentation, lints and the attributes of serde. The model's other attributes belong to its derives.
fn with_copied(of_model: &[Attribute], derived: &TokenStream, attrs: &[Meta]) -> Vec<Attribute> {
    let is_copied =
        |attr: &&Attribute| ["allow", "doc", "serde"].iter().any(|name| attr.path().is_ident(name));
    let copied = of_model.iter().filter(is_copied);
    parse_quote!(#derived #(#copied)* #(#[#attrs])*)
}

fn write_fields(fields: &mut Fields, model: &Type, krate: &Path) -> Result<()> {
    let (Fields::Named(FieldsNamed { named: all, .. })
    | Fields::Unnamed(FieldsUnnamed { unnamed: all, .. })) = fields
    else {
        return Ok(());
    };
    let written = take(all).into_iter().map(|field| write_field(field, model, krate));
    *all = written.filter_map(Result::transpose).collect::<Result<_>>()?;
    Ok(())
}

/// `None` means that the view does not have the field.
fn write_field(mut field: Field, model: &Type, krate: &Path) -> Result<Option<Field>> {
    let (mut seen, mut ty, mut passed, mut attrs) = (HashSet::new(), None, Vec::new(), Vec::new());
    each_option(&field.attrs, "view", |name, meta| {
        if !seen.insert(name.to_owned()) {
            return Err(meta.error(format!("duplicate option `{name}`")));
        }
        match name {
            // Fields without names have the same numbers in the view and the model.
            "skip" if field.ident.is_some() => {}
            "as" => ty = Some(value(meta, "the type in the view; write `as = External<User>`")?),
            "attr" => attrs.extend(list::<Meta>(meta)?),
            "into" | "given" => passed.push(meta.path.to_token_stream()),
            "with" => {
                let with: Path =
                    value(meta, "a function that takes `&` of the model; write `with = initials`")?;
                passed.push(quote!(with = #with));
            }
            _ => {
                return Err(meta.error(
                    "unknown option; a field of a model has `as`, `attr`, `with`, `into`, `given` and, with a name, `skip`; `#[serde(rename = …)]` renames it",
                ));
            }
        }
        Ok(())
    })?;
    if seen.contains("skip") {
        return match seen.len() {
            1 => Ok(None),
            _ => Err(Error::new_spanned(&field, "a field with `skip` has no other option")),
        };
    }
    let is_trusted = |attr: &&Attribute| {
        let text = attr.to_token_stream().to_string();
        let mut paths = text.split("with = \"").skip(1).filter_map(|rest| rest.split('"').next());
        attr.path().is_ident("serde") && paths.any(|path| path.contains("trusted"))
    };
    if let Some(attr) = field.attrs.iter().find(is_trusted) {
        let wanted =
            "`trusted` would show the key in the view; write `#[view(skip)]`, or the view by hand";
        return Err(Error::new_spanned(attr, wanted));
    }
    match ty {
        Some(ty) => field.ty = ty,
        None => seal(&mut field.ty, model, krate)?,
    }
    // Errors of the view's derives point to the first token of a field.
    let options = quote_spanned!(located(&field.ty)=> #[view(#(#passed),*)]);
    field.attrs = with_copied(&field.attrs, &options, &attrs);
    Ok(Some(field))
}

/// Replaces `Internal<T>`.
fn seal(ty: &mut Type, model: &Type, krate: &Path) -> Result<()> {
    if let Some(of) = argument(ty, "Internal") {
        let is_self = matches!(of, Type::Path(of) if of.path.is_ident("Self"));
        let of = if is_self { model } else { of };
        // Errors in the field point to its type.
        let (at, external) = (ty.span(), quote!(#krate::External<#of>));
        let external = external.into_iter().map(|mut token| {
            token.set_span(token.span().located_at(at));
            token
        });
        let external = TokenStream::from_iter(external);
        *ty = parse_quote!(#external);
        return Ok(());
    }
    match ty {
        Type::Tuple(tuple) => tuple.elems.iter_mut().try_for_each(|ty| seal(ty, model, krate)),
        Type::Array(array) => seal(&mut array.elem, model, krate),
        Type::Slice(slice) => seal(&mut slice.elem, model, krate),
        Type::Group(group) => seal(&mut group.elem, model, krate),
        Type::Path(of) if of.path.is_ident("Self") || is_type(of, model) => {
            let wanted = "this is the model and not its view; write `as`, such as `#[view(as = Vec<PartView>)]`";
            Err(Error::new_spanned(of, wanted))
        }
        Type::Path(of) => {
            for segment in &mut of.path.segments {
                let PathArguments::AngleBracketed(list) = &mut segment.arguments else { continue };
                for arg in &mut list.args {
                    if let GenericArgument::Type(ty) = arg {
                        seal(ty, model, krate)?;
                    }
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns whether both have the same name, with any arguments.
fn is_type(path: &TypePath, model: &Type) -> bool {
    let Type::Path(model) = model else { return false };
    path.path.segments.len() == 1 && path.path.segments[0].ident == model.path.segments[0].ident
}
