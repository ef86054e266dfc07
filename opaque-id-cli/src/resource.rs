use std::collections::BTreeMap;
use std::error::Error;

use jiff::Timestamp;
use opaque_id_core::form::{FormKind, LOGS_AUDIENCE, from_log, to_log};
use opaque_id_core::inspect::inspect;
use opaque_id_core::key::{AnyKey, Key, KeyKind, StructuredKey, Ulid, Uuid, Uuid7};
use opaque_id_core::keyring::{Invalid, KeyId, RuntimeResource};
use opaque_id_core::{IdError, Keyring};

use crate::args::{self, name};
use crate::resources::{self, ResourceSettings};
use crate::secrets::Opener;

pub(crate) struct KeyView {
    pub(crate) key: String,
    pub(crate) kind: &'static str,
    pub(crate) time: Option<Timestamp>,
    pub(crate) is_far: bool,
}

pub(crate) struct Opened {
    pub(crate) shown: KeyView,
    pub(crate) key_id: KeyId,
    /// Without a tag, any secret opens the id to some key.
    pub(crate) is_verified: bool,
    pub(crate) expires: Option<Timestamp>,
}

pub(crate) struct Resources {
    pub(crate) file: Option<String>,
    candidates: Candidates,
}

enum Candidates {
    Given(Resource),
    Listed { all: BTreeMap<String, Resource>, advice: &'static str },
}

pub(crate) struct Resource {
    pub(crate) settings: ResourceSettings,
    sealed: Option<RuntimeResource>,
    is_of_logs: bool,
}

impl Resources {
    /// A found file is trusted if it belongs to the user, to root, or, if `trusts_sudo` is set, to the user
    /// of sudo.
    pub(crate) fn new(
        args: &args::ResourceArgs,
        opener: &Opener,
        trusts_sudo: bool,
    ) -> Result<Self, Box<dyn Error>> {
        let is_of_logs = args.audience.as_deref() == Some(LOGS_AUDIENCE);
        let for_audience;
        let (opener, listed, advice) = match opener {
            Opener::Keyring(keyring) => {
                for_audience = Opener::Keyring(self::audience_keyring(args, keyring));
                let listed = resources::Resources::read(args.resources.as_deref(), trusts_sudo)?;
                (&for_audience, listed, "add it, or name it by --prefix and --key")
            }
            Opener::Subkeys(subkeys) => {
                subkeys.check(args)?;
                (opener, Some(subkeys.resources()), "its subkeys were not exported into this file")
            }
        };
        let file = listed.as_ref().map(|listed| listed.file.display().to_string());
        let candidates = match &args.prefix {
            Some(prefix) => Candidates::Given(Resource::new(
                given(prefix, args, listed.as_ref())?,
                opener,
                is_of_logs,
            )?),
            None => {
                let all = listed.ok_or(NO_FILE)?.all.into_iter().map(|(prefix, settings)| {
                    let file = file.as_deref().unwrap_or_default();
                    let resource = Resource::new(settings, opener, is_of_logs)
                        .map_err(|error| format!("{file}: `{prefix}`: {error}"))?;
                    Ok::<_, String>((prefix, resource))
                });
                Candidates::Listed { all: all.collect::<Result<_, _>>()?, advice }
            }
        };
        Ok(Self { file, candidates })
    }

    pub(crate) fn given(&self) -> Option<&Resource> {
        match &self.candidates {
            Candidates::Given(resource) => Some(resource),
            Candidates::Listed { .. } => None,
        }
    }

    pub(crate) fn act<R>(
        &self,
        id: &str,
        act: impl Fn(&Resource) -> Result<R, Box<dyn Error>>,
    ) -> Result<(R, &Resource), Box<dyn Error>> {
        let (all, advice) = match &self.candidates {
            Candidates::Given(resource) => return Ok((act(resource)?, resource)),
            Candidates::Listed { all, advice } => (all, advice),
        };
        let file = self.file.as_deref().unwrap_or_default();
        let found = inspect(from_log(id).as_deref().unwrap_or(id));
        match (found.problem, found.suggestion, found.prefix) {
            (Some(problem), Some(meant), _) => {
                Err(format!("invalid id: {problem}; suggestion: {meant}").into())
            }
            (Some(problem), None, _) => Err(format!("invalid id: {problem}").into()),
            (None, _, Some(prefix)) => {
                let of_cursor = || all.get(found.cursor_of.as_deref()?);
                let resource = all.get(&prefix).or_else(of_cursor);
                let resource = resource
                    .ok_or_else(|| format!("{file} has no resource `{prefix}`; {advice}"))?;
                Ok((act(resource)?, resource))
            }
            (None, _, None) => {
                act_on_uuid(all.values().filter(|resource| resource.settings.is_uuid()), file, act)
            }
        }
    }
}

/// Resources that refuse foreign ids are tried first. If none of them accepts the UUID, it belongs to the
/// only remaining resource.
fn act_on_uuid<'r, R>(
    resources: impl Iterator<Item = &'r Resource>,
    file: &str,
    act: impl Fn(&Resource) -> Result<R, Box<dyn Error>>,
) -> Result<(R, &'r Resource), Box<dyn Error>> {
    // Such resources have a tag of 40 bits or more.
    let is_authenticated = |resource: &&Resource| {
        resource.sealed.as_ref().is_some_and(|sealed| sealed.tag_bits() >= 40)
    };
    let (asked, left): (Vec<_>, Vec<_>) = resources.partition(is_authenticated);
    let names = |of: &[&Resource]| {
        let names = of.iter().map(|resource| format!("`{}`", resource.settings.prefix));
        names.collect::<Vec<_>>().join(", ")
    };
    let mut accepted = asked.iter().filter_map(|resource| Some((act(resource).ok()?, *resource)));
    match (accepted.next(), &left[..]) {
        (Some(accepted), _) => Ok(accepted),
        (None, [only]) => Ok((act(only)?, only)),
        (None, []) => match &asked[..] {
            [] => {
                Err(format!("it has no prefix, and no resource of {file} has the uuid form").into())
            }
            // The resource's own error is more precise.
            [only] => Ok((act(only)?, only)),
            _ => Err(format!("it is not a genuine id of {}", names(&asked)).into()),
        },
        (None, left) => Err(format!(
            "it may be of {}, whose ids say nothing about their resource; name one by --prefix",
            names(left)
        )
        .into()),
    }
}

impl Resource {
    fn new(settings: ResourceSettings, opener: &Opener, is_of_logs: bool) -> Result<Self, Invalid> {
        let ResourceSettings { prefix, domain, key, form, .. } = &settings;
        // Logs have one form for all resources, including mapped ones.
        let form = if is_of_logs { &FormKind::TEXT } else { form };
        let sealed = match opener {
            _ if form.is_mapped() => None,
            Opener::Keyring(keyring) => {
                Some(RuntimeResource::new(keyring, prefix, domain, *key, *form)?)
            }
            Opener::Subkeys(subkeys) => {
                let subkeys = |key_id| subkeys.get(prefix, key_id);
                Some(RuntimeResource::with_subkeys(prefix, *key, *form, subkeys)?)
            }
        };
        Ok(Self { settings, sealed, is_of_logs })
    }

    fn sealed(&self) -> Result<&RuntimeResource, &'static str> {
        self.sealed.as_ref().ok_or(
            "the resource is mapped, so its ids are not sealed: look in its mapping table, for the UUID that \
             `opaque-id inspect` prints",
        )
    }

    pub(crate) fn seal(
        &self,
        key_id: KeyId,
        key: &str,
    ) -> Result<(String, KeyView), Box<dyn Error>> {
        let key = match self.settings.key.is_integer() {
            true => AnyKey::Int(i64::read(key)?),
            false => AnyKey::Bytes(Uuid::read(key)?),
        };
        let sealed = self.sealed()?;
        let id = sealed.seal_with(key_id, key)?;
        let id = if self.is_of_logs { to_log(&id) } else { id };
        Ok((id, self.key_view(sealed, key)))
    }

    pub(crate) fn open(&self, id: &str, purpose: Option<&str>) -> Result<Opened, Box<dyn Error>> {
        let sealed = self.sealed()?;
        if self.is_of_logs {
            let id = from_log(id).ok_or_else(|| {
                let prefix = &self.settings.prefix;
                format!("expected an id of a log, `{prefix}_log` and 26 characters; leave --audience out for an id of an API")
            })?;
            return Ok(self.opened(sealed, sealed.open(&id)?, sealed.tag_bits() > 0));
        }
        match (inspect(id).form, purpose) {
            (Some("grant"), Some(purpose)) => {
                let (key, key_id, expires) = sealed.open_grant(id, purpose)?;
                let expires = Timestamp::try_from(expires).ok();
                return Ok(Opened { expires, ..self.opened(sealed, (key, key_id), true) });
            }
            (Some("grant"), None) => {
                return Err("a grant opens for its purpose: name it by --purpose".into());
            }
            (Some("position"), _) => {
                return Err(
                    "a position opens in the application only, for its list and its filter".into(),
                );
            }
            _ => {}
        }
        // A cursor has a tag, and its text starts differently from every id of the resource.
        Ok(match sealed.open_cursor(id) {
            Err(IdError::InvalidId(_)) => {
                let opened = sealed.open(id).map_err(|error| self.other_form_error(id, error))?;
                self.opened(sealed, opened, sealed.tag_bits() > 0)
            }
            cursor => self.opened(sealed, cursor?, true),
        })
    }

    fn other_form_error(&self, id: &str, error: IdError) -> Box<dyn Error> {
        let found = inspect(id);
        match found.form.filter(|_| found.is_well_formed() && found.cursor_of.is_none()) {
            Some(form) if form != self.settings.form.name() => {
                format!("{error}; it has the {form} form: try --form {form}").into()
            }
            _ => error.into(),
        }
    }

    pub(crate) fn renew(&self, id: &str) -> Result<(String, Opened), Box<dyn Error>> {
        let sealed = self.sealed()?;
        let found = inspect(id);
        let is_cursor = found.cursor_of.as_ref() == Some(&self.settings.prefix);
        if is_cursor || matches!(found.form, Some("grant" | "position")) {
            let what = found.form.filter(|_| !is_cursor).unwrap_or("cursor");
            return Err(format!("a {what} cannot be renewed: it ends with its secret").into());
        }
        let (key, key_id) = sealed.open(id).map_err(|error| self.other_form_error(id, error))?;
        let is_verified = sealed.tag_bits() > 0;
        Ok((sealed.seal(key)?, self.opened(sealed, (key, key_id), is_verified)))
    }

    fn opened(
        &self,
        sealed: &RuntimeResource,
        (key, key_id): (AnyKey, KeyId),
        is_verified: bool,
    ) -> Opened {
        Opened { shown: self.key_view(sealed, key), key_id, is_verified, expires: None }
    }

    fn key_view(&self, sealed: &RuntimeResource, key: AnyKey) -> KeyView {
        let kind = self.settings.key;
        let has_time = matches!(kind, KeyKind::UUID7 | KeyKind::ULID);
        let (key, time) = match (kind, key) {
            (KeyKind::ULID, AnyKey::Bytes(uuid)) => {
                let ulid = Ulid::from(uuid);
                (ulid.to_string(), at_millis(ulid.unix_millis()))
            }
            (KeyKind::UUID7 | KeyKind::UUID, AnyKey::Bytes(uuid)) => (uuid.to_string(), time(uuid)),
            (_, key) => (key.to_string(), None),
        };
        // A time that cannot be written is after the year 9999.
        let is_far = time.map_or(has_time, is_far);
        KeyView { key, kind: sealed.kind(), time, is_far }
    }
}

const NO_FILE: &str = "no opaque-id.toml in this folder or above: write it (`opaque-id resources > opaque-id.toml` reads the \
    source), or name the resource by --prefix and --key";

/// Options must agree with the file, because a wrong kind of key, form or domain opens ids without a tag to
/// wrong keys.
fn given(
    prefix: &str,
    args: &args::ResourceArgs,
    listed: Option<&resources::Resources>,
) -> Result<ResourceSettings, String> {
    let found = listed.and_then(|listed| Some((listed.file.display(), listed.all.get(prefix)?)));
    let Some((file, found)) = found else {
        let key = args.key.ok_or_else(|| match listed {
            Some(listed) => format!(
                "{} has no resource `{prefix}`: add it (`opaque-id resources` prints those of a source), or name its \
                 key, such as --key uuid7",
                listed.file.display()
            ),
            None => format!(
                "the kind of the keys of `{prefix}` is not known: name it, such as --key uuid7, or write \
                 opaque-id.toml (`opaque-id resources > opaque-id.toml` reads the source)"
            ),
        })?;
        let mut settings = ResourceSettings { key, ..ResourceSettings::new(prefix) };
        settings.form = args.form.unwrap_or(settings.form);
        settings.domain = args.domain.clone().unwrap_or(settings.domain);
        return Ok(settings);
    };
    for (option, given, expected) in [
        ("key", args.key.map(name), name(found.key)),
        ("form", args.form.map(|form| form.name()), found.form.name()),
        ("domain", args.domain.as_deref(), &found.domain),
    ] {
        if given.is_some_and(|given| given != expected) {
            return Err(format!(
                "expected the {option} of `{prefix}` in {file}, {expected}, found another --{option}: leave the option out, \
                 correct the file, or name another one (--resources)"
            ));
        }
    }
    Ok(found.clone())
}

pub(crate) fn named(args: &args::ResourceArgs) -> Result<ResourceSettings, Box<dyn Error>> {
    let listed = resources::Resources::read(args.resources.as_deref(), true)?;
    let prefix = args.prefix.as_ref().ok_or("expected --prefix")?;
    Ok(given(prefix, args, listed.as_ref())?)
}

/// Returns all resources of the file with sealed ids if nothing names others.
pub(crate) fn settings(
    args: &args::ResourceArgs,
    names: &[String],
) -> Result<Vec<ResourceSettings>, Box<dyn Error>> {
    let listed = resources::Resources::read(args.resources.as_deref(), true)?;
    if let Some(prefix) = &args.prefix {
        return Ok(vec![given(prefix, args, listed.as_ref())?]);
    }
    let resources::Resources { file, mut all } = listed.ok_or(NO_FILE)?;
    if names.is_empty() {
        all.retain(|_, settings| !settings.form.is_mapped());
        if all.is_empty() {
            return Err(format!("{} has no resource whose ids are sealed", file.display()).into());
        }
        return Ok(all.into_values().collect());
    }
    let named = names.iter().map(|name| {
        all.remove(name).ok_or_else(|| {
            format!("{} has no resource `{name}`, or it is named twice", file.display()).into()
        })
    });
    named.collect()
}

pub(crate) fn audience_keyring(args: &args::ResourceArgs, keyring: &Keyring) -> Keyring {
    args.audience.as_deref().map_or_else(|| keyring.clone(), |name| keyring.for_audience(name))
}

pub(crate) trait ShownKey: Key + ToString {
    fn read(text: &str) -> Result<Self, Box<dyn Error>>;
}

macro_rules! shown {
    ($($key:ty)*) => {$(
        impl ShownKey for $key {
            fn read(text: &str) -> Result<Self, Box<dyn Error>> {
                Ok(Uuid::read(text)?.try_into()?)
            }
        }
    )*};
}

shown! { Uuid7 Ulid StructuredKey }

/// All are 16 bytes: a UUID, 32 hex digits or a ULID.
impl ShownKey for Uuid {
    fn read(text: &str) -> Result<Self, Box<dyn Error>> {
        if let Ok(ulid) = text.parse::<Ulid>() {
            return Ok(ulid.into());
        }
        Self::try_parse(text).map_err(|_| "expected a UUID, 32 hex digits or a ULID".into())
    }
}

impl ShownKey for i64 {
    fn read(text: &str) -> Result<Self, Box<dyn Error>> {
        text.parse().map_err(|_| "expected a signed 64-bit integer".into())
    }
}

fn time(uuid: Uuid) -> Option<Timestamp> {
    let (seconds, nanoseconds) = uuid.get_timestamp()?.to_unix();
    Timestamp::new(seconds.try_into().ok()?, nanoseconds.try_into().ok()?).ok()
}

/// Returns whether the time is before 2000 or more than a day from now.
fn is_far(time: Timestamp) -> bool {
    const YEAR_2000: i64 = 946_684_800;
    const DAY: i64 = 86_400;
    !(YEAR_2000..=Timestamp::now().as_second() + DAY).contains(&time.as_second())
}

/// Returns `None` after the year 9999.
fn at_millis(millis: u64) -> Option<Timestamp> {
    Timestamp::from_millisecond(millis.try_into().ok()?).ok()
}
