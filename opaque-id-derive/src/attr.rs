//! The parser of the attributes. It reports a mistake at its place.

use std::collections::HashSet;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident};
use syn::ext::IdentExt as _;
use syn::meta::ParseNestedMeta;
use syn::parse::Parse;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, GenericArgument, GenericParam, Generics,
    LitStr, Member, Path, PathArguments, Result, Type, TypePath, Variant, parse_quote, parse_str,
};

pub(crate) struct Options {
    pub(crate) prefix: LitStr,
    pub(crate) option: Span,
    pub(crate) domain: LitStr,
    /// `None` means `Uuid7`.
    pub(crate) key: Option<Type>,
    pub(crate) form: Ident,
    /// `None` means the crate's `Internal<Self>`.
    pub(crate) internal: Option<Type>,
    /// `None` means the crate that exports the derive.
    pub(crate) krate: Option<Path>,
}

#[derive(Default)]
struct Given {
    prefix: Option<LitStr>,
    option: Option<Span>,
    domain: Option<LitStr>,
    key: Option<Type>,
    form: Option<LitStr>,
    internal: Option<Type>,
    krate: Option<LitStr>,
}

impl Options {
    /// Reports all mistakes in values at once, and otherwise the first one.
    pub(crate) fn parse(input: &DeriveInput) -> Result<Self> {
        let mut errors = Vec::new();
        if let Data::Union(data) = &input.data {
            errors.push(Error::new(
                data.union_token.span,
                "`OpaqueId` can only be derived for structs and enums",
            ));
        }
        for param in &input.generics.params {
            if let GenericParam::Lifetime(lifetime) = param {
                errors.push(Error::new_spanned(
                    lifetime,
                    "`OpaqueId` cannot be derived for types with lifetimes; derive it on a marker type, such as \
                     `struct User;`",
                ));
            }
        }

        let mut given = Given::default();
        for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("opaque_id")) {
            errors.extend(attr.parse_nested_meta(|meta| given.option(&meta)).err());
        }

        errors.extend(given.prefix.as_ref().and_then(|prefix| check_prefix(prefix).err()));
        if given.prefix.is_none() && errors.is_empty() {
            errors.push(Error::new(
                input.ident.span(),
                format!(
                    "`{}` needs a prefix; write `#[opaque_id(prefix = \"{}\")]`",
                    input.ident,
                    suggestion(&input.ident.to_string()),
                ),
            ));
        }
        if let Some(domain) = &given.domain
            && domain.value().is_empty()
        {
            errors.push(Error::new_spanned(
                domain,
                "`domain` must not be empty; omit it to use the prefix",
            ));
        }
        let key = given.key.as_ref();
        errors.extend(key.and_then(|key| check_key(key, &input.generics).err()));
        let form = given.form.as_ref();
        let form = form.map_or_else(|| Ok(Ident::new("Text", Span::call_site())), form_type);
        let krate = given.krate.as_ref().map(parse_path).transpose();

        match (given.prefix, form, krate) {
            (Some(prefix), Ok(form), Ok(krate)) if errors.is_empty() => Ok(Self {
                domain: given.domain.unwrap_or_else(|| prefix.clone()),
                prefix,
                option: given.option.unwrap_or_else(Span::call_site),
                key: given.key,
                form,
                internal: given.internal,
                krate,
            }),
            (_, form, krate) => {
                errors.extend(form.err());
                errors.extend(krate.err());
                let all = errors.into_iter().reduce(|mut all, error| {
                    all.combine(error);
                    all
                });
                Err(all
                    .unwrap_or_else(|| Error::new_spanned(&input.ident, "missing option `prefix`")))
            }
        }
    }
}

const FORMS: &str = "write `form = \"text\"`, `\"short\"`, `\"tagged\"`, `\"uuid\"`, `\"mapped\"` or `\"mapped_uuid\"`";

impl Given {
    fn option(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("prefix") {
            self.option = meta.path.get_ident().map(Ident::span);
            set(&mut self.prefix, meta, "prefix", "a string; write `prefix = \"user\"`")
        } else if meta.path.is_ident("domain") {
            set(&mut self.domain, meta, "domain", "a string; write `domain = \"user\"`")
        } else if meta.path.is_ident("key") {
            let types = "a type; write `key = Uuid7`, `Ulid`, `StructuredKey`, `Uuid`, `i64`, `i32` or `u32`";
            set(&mut self.key, meta, "key", types)
        } else if meta.path.is_ident("form") {
            set(&mut self.form, meta, "form", &format!("a string; {FORMS}"))
        } else if meta.path.is_ident("internal") {
            let types = "a newtype that derives `IdNewtype`; write `internal = UserId`";
            set(&mut self.internal, meta, "internal", types)
        } else if meta.path.is_ident("crate") {
            let paths = "a path in a string; write `crate = \"opaque_id_core\"`";
            set(&mut self.krate, meta, "crate", paths)
        } else {
            Err(meta.error(
                "unknown option; the options are `prefix`, `domain`, `key`, `form`, `internal` and `crate`",
            ))
        }
    }
}

fn set<V: Parse>(
    option: &mut Option<V>,
    meta: &ParseNestedMeta<'_>,
    name: &str,
    wanted: &str,
) -> Result<()> {
    if option.is_some() {
        return Err(meta.error(format!("duplicate option `{name}`")));
    }
    let value = meta.value().map_err(|_| meta.error(format!("`{name}` must be {wanted}")))?;
    let span = value.span();
    *option =
        Some(value.parse().map_err(|_| Error::new(span, format!("`{name}` must be {wanted}")))?);
    Ok(())
}

/// `opaque_id_core` checks TypeID's rule too, but without a span and a suggestion.
fn check_prefix(prefix: &LitStr) -> Result<()> {
    let value = prefix.value();
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    let problem = if value.is_empty() {
        "`prefix` must not be empty"
    } else if value.len() > 63 {
        "`prefix` must have at most 63 characters"
    } else if !value.bytes().all(allowed) {
        "`prefix` must contain only the characters a-z, 0-9 and _"
    } else if !value.as_bytes()[0].is_ascii_lowercase() {
        "`prefix` must start with a letter"
    } else if value.ends_with('_') {
        "`prefix` must not end with _, which separates it from the id"
    } else {
        return Ok(());
    };
    let suggestion = suggestion(&value);
    Err(Error::new_spanned(prefix, format!("{problem}; try `prefix = \"{suggestion}\"`")))
}

/// This examines the tokens, so it also finds a parameter in a macro's call.
fn check_key(key: &Type, generics: &Generics) -> Result<()> {
    fn idents(tokens: TokenStream) -> Vec<Ident> {
        let idents = tokens.into_iter().flat_map(|token| match token {
            TokenTree::Ident(ident) => vec![ident],
            TokenTree::Group(group) => idents(group.stream()),
            _ => Vec::new(),
        });
        idents.collect()
    }
    let depends = |ident: &Ident| {
        let mut params = generics.type_params().map(|param| &param.ident);
        let mut consts = generics.const_params().map(|param| &param.ident);
        let is_self = ident == "Self" && !generics.params.is_empty();
        is_self || params.any(|param| param == ident) || consts.any(|param| param == ident)
    };
    match idents(key.to_token_stream()).into_iter().find(depends) {
        Some(param) => Err(Error::new_spanned(
            key,
            format!(
                "`key` must not depend on `{param}`: all instances of the type have one prefix and one domain, so an id of one \
                 kind of key would open as another kind; derive `OpaqueId` on a type for each kind of key"
            ),
        )),
        None => Ok(()),
    }
}

fn suggestion(name: &str) -> String {
    let mut prefix = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && prefix.ends_with(|c: char| c != '_') {
            prefix.push('_');
        }
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' => prefix.push(c.to_ascii_lowercase()),
            _ if !prefix.ends_with('_') => prefix.push('_'),
            _ => {}
        }
    }
    let prefix = prefix.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    let prefix = prefix.get(..63).unwrap_or(prefix).trim_end_matches('_');
    if prefix.is_empty() { "user".into() } else { prefix.into() }
}

fn form_type(form: &LitStr) -> Result<Ident> {
    let name = match form.value().as_str() {
        "text" => "Text",
        "short" => "Short",
        "tagged" => "Tagged",
        "uuid" => "UuidForm",
        "mapped" => "Mapped",
        "mapped_uuid" => "MappedUuid",
        other => {
            return Err(Error::new_spanned(form, format!("unknown form `{other}`; {FORMS}")));
        }
    };
    Ok(Ident::new(name, form.span()))
}

fn parse_path(path: &LitStr) -> Result<Path> {
    path.parse_with(Path::parse_mod_style).map_err(|_| {
        Error::new_spanned(
            path,
            "`crate` must be a path in a string; write `crate = \"opaque_id_core\"`",
        )
    })
}

pub(crate) struct Shape<'i> {
    pub(crate) variant: Option<&'i Variant>,
    pub(crate) fields: &'i Fields,
}

pub(crate) fn shapes<'i>(input: &'i DeriveInput, derive: &str) -> Result<Vec<Shape<'i>>> {
    let at_name = |message| Err(Error::new(input.ident.span(), message));
    if let Some(lifetime) = input.generics.lifetimes().next() {
        let message =
            format!("`{derive}` cannot be derived for types with lifetimes; implement it by hand");
        return Err(Error::new_spanned(lifetime, message));
    }
    match &input.data {
        Data::Struct(data) => match &data.fields {
            fields @ Fields::Named(_) => Ok(vec![Shape { variant: None, fields }]),
            _ => at_name(format!("`{derive}` needs named fields, which are those of the model")),
        },
        Data::Enum(data) if data.variants.is_empty() => {
            at_name(format!("`{derive}` needs variants, which are those of the model"))
        }
        Data::Enum(data) => Ok(data
            .variants
            .iter()
            .map(|variant| Shape { variant: Some(variant), fields: &variant.fields })
            .collect()),
        Data::Union(_) => at_name(format!("`{derive}` can only be derived for structs and enums")),
    }
}

impl Shape<'_> {
    /// The variable hides no name of ours.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (Member, Ident, &Field)> {
        self.fields.iter().enumerate().map(|(number, field)| match &field.ident {
            Some(name) => (name.clone().into(), format_ident!("field_{}", name.unraw()), field),
            None => (number.into(), format_ident!("field_{number}"), field),
        })
    }

    /// The other side's variant has the same name unless an attribute renames it.
    pub(crate) fn other(&self, attribute: &str) -> Result<Option<Ident>> {
        let Some(variant) = self.variant else { return Ok(None) };
        let mut other = variant.ident.clone();
        each_option(&variant.attrs, attribute, |name, meta| {
            if name != "rename" {
                return Err(meta.error("unknown option; the option of a variant is `rename`"));
            }
            let wanted = "a variant of the model in a string; write `rename = \"Joined\"`";
            other = value::<LitStr>(meta, wanted)?.parse()?;
            Ok(())
        })?;
        Ok(Some(other))
    }
}

/// Variants need a path, and a type cannot be one.
pub(crate) fn enum_path(model: &Type) -> Result<Path> {
    match ungrouped(model) {
        Type::Path(TypePath { qself: None, path, .. }) => {
            let mut path = path.clone();
            path.segments.iter_mut().for_each(|segment| segment.arguments = PathArguments::None);
            Ok(path)
        }
        _ => Err(Error::new_spanned(model, "the model of an enum must be named by its path")),
    }
}

/// If a field has `External<_>` of a parameter, the parameter is a sealed resource.
pub(crate) fn with_bounds(input: &DeriveInput, krate: &Path) -> Generics {
    fn has(tokens: TokenStream, param: &Ident) -> bool {
        let mut of_external = 0;
        tokens.into_iter().any(|token| match token {
            TokenTree::Group(group) => has(group.stream(), param),
            TokenTree::Ident(ident) if ident == "External" => {
                of_external = 1;
                false
            }
            TokenTree::Punct(punct) if punct.as_char() == '<' && of_external == 1 => {
                of_external = 2;
                false
            }
            TokenTree::Ident(ident) if of_external == 2 && ident == *param => true,
            _ => {
                of_external = 0;
                false
            }
        })
    }
    let fields: Vec<_> = match &input.data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Data::Union(_) => Vec::new(),
    };
    let mut generics = input.generics.clone();
    for param in input.generics.type_params().map(|param| &param.ident) {
        if fields.iter().any(|field| has(field.ty.to_token_stream(), param)) {
            let sealed = parse_quote!(#param: #krate::resource::SealedResource);
            generics.make_where_clause().predicates.push(sealed);
        }
    }
    generics
}

pub(crate) fn or_default(krate: Option<Path>, default_crate: &str) -> Result<Path> {
    krate.map_or_else(|| parse_str(default_crate), Ok)
}

/// Reads an attribute that has only the option `crate`.
pub(crate) fn crate_of(input: &DeriveInput, attribute: &str, default_crate: &str) -> Result<Path> {
    let mut krate = None;
    each_option(&input.attrs, attribute, |name, meta| match name {
        "crate" => crate_path(meta).map(|path| krate = Some(path)),
        _ => Err(meta.error("unknown option; the option is `crate`")),
    })?;
    or_default(krate, default_crate)
}

pub(crate) fn each_option(
    attrs: &[Attribute],
    attribute: &str,
    mut each: impl FnMut(&str, &ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    let mut attrs = attrs.iter().filter(|attr| attr.path().is_ident(attribute));
    attrs.try_for_each(|attr| {
        attr.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
            each(&name, &meta)
        })
    })
}

#[derive(Default)]
pub(crate) struct FieldOptions {
    pub(crate) rename: Option<Ident>,
    pub(crate) with: Option<Path>,
    pub(crate) is_encrypted: bool,
    // Only views have the options below.
    pub(crate) is_given: bool,
    pub(crate) is_into: bool,
    pub(crate) prefix: Option<LitStr>,
}

pub(crate) fn field_options(
    field: &Field,
    attribute: &str,
    with: &str,
    unknown: &str,
) -> Result<FieldOptions> {
    let mut options = FieldOptions::default();
    let mut seen = HashSet::new();
    each_option(&field.attrs, attribute, |name, meta| {
        if !seen.insert(name.to_owned()) {
            return Err(meta.error(format!("duplicate option `{name}`")));
        }
        match name {
            "rename" => {
                let wanted = "a field of the model in a string; write `rename = \"name\"`";
                options.rename = Some(value::<LitStr>(meta, wanted)?.parse()?);
            }
            "with" => options.with = Some(value(meta, with)?),
            "decrypt" if attribute == "view" => options.is_encrypted = true,
            "encrypt" if attribute == "model" => options.is_encrypted = true,
            "given" if attribute == "view" => options.is_given = true,
            "into" if attribute == "view" => options.is_into = true,
            "prefix" if attribute == "view" => {
                options.prefix = Some(value(meta, "a string; write `prefix = \"author_\"`")?);
            }
            _ => return Err(meta.error(unknown)),
        }
        Ok(())
    })?;
    Ok(options)
}

#[derive(Default)]
pub(crate) struct Columns {
    columns: Option<Type>,
    error: Option<Type>,
    id: Option<Ident>,
}

impl Columns {
    pub(crate) fn option(&mut self, name: &str, meta: &ParseNestedMeta<'_>) -> Result<bool> {
        match name {
            "columns" => {
                let wanted =
                    "a struct with the encrypted columns of the model; write `columns = Columns`";
                self.columns = Some(value(meta, wanted)?);
            }
            "error" => {
                let wanted = "an error that `?` makes of a `PackError` and of a `RequestError`; write `error = AppError`";
                self.error = Some(value(meta, wanted)?);
            }
            "id" => {
                let wanted = "the model's field with the id; write `id = customer_id`";
                self.id = Some(value(meta, wanted)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(crate) fn id(&self) -> Ident {
        self.id.clone().unwrap_or_else(|| Ident::new("id", self.columns.span()))
    }

    /// `None` means that no field is encrypted.
    pub(crate) fn of(&self, input: &DeriveInput, is_used: bool) -> Result<Option<(&Type, &Type)>> {
        match (&self.columns, &self.error, is_used) {
            (None, None, false) => Ok(None),
            (Some(columns), Some(error), true) => Ok(Some((columns, error))),
            _ => Err(Error::new(
                input.ident.span(),
                "`decrypt` and `encrypt` of a field, and `columns = …` and `error = …` of the struct need each other",
            )),
        }
    }
}

/// A type that a `macro_rules` macro has passed as `$t:ty` is in a group without delimiters.
pub(crate) fn ungrouped(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => ungrouped(&group.elem),
        _ => ty,
    }
}

pub(crate) fn in_option(ty: &Type) -> Option<&Type> {
    argument(ty, "Option")
}

pub(crate) fn argument<'t>(ty: &'t Type, of: &str) -> Option<&'t Type> {
    let Type::Path(ty) = ungrouped(ty) else { return None };
    let last = ty.path.segments.last().filter(|last| last.ident == of)?;
    match &last.arguments {
        PathArguments::AngleBracketed(of) if of.args.len() == 1 => match of.args.first() {
            Some(GenericArgument::Type(ty)) => Some(ty),
            _ => None,
        },
        _ => None,
    }
}

/// Returns a span at the tokens for errors. Names resolve at the derive, because a macro can have passed the
/// tokens.
pub(crate) fn located(tokens: &impl Spanned) -> Span {
    Span::call_site().located_at(tokens.span())
}

pub(crate) fn crate_path(meta: &ParseNestedMeta<'_>) -> Result<Path> {
    let path = value(meta, "a path in a string; write `crate = \"opaque_id_core\"`")?;
    parse_path(&path)
}

pub(crate) fn value<V: Parse>(meta: &ParseNestedMeta<'_>, wanted: &str) -> Result<V> {
    let name = meta.path.require_ident()?;
    meta.value()
        .and_then(syn::parse::ParseBuffer::parse)
        .map_err(|_| meta.error(format!("`{name}` must be {wanted}")))
}
