//! The keyring that an extractor lends to the ids in serde's values.
//!
//! serde reaches ids at any depth of an application's types, and has no place for a keyring or for an error
//! that is more than a text. A wire type for each of the application's types would need a derive that repeats
//! serde's attributes. So our extractors run the framework's extractors with the keyring in a thread-local.
//! It is exchanged around each poll, so that no other task sees it, and it also receives the reason of a
//! refusal. An id in an extractor of another crate finds no keyring, and the log names our extractors.

use core::any::TypeId;
use core::mem::{self, swap};
use core::pin::pin;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::task::Poll;

use opaque_id_core::__private::{Extractor, OldIdResult, replace_extractor, take_refused};
use opaque_id_core::{IdError, IntoModel, Keyring};
use serde_core::de::Error;

use crate::old_ids::RequestOldIds;
use crate::refusal::{NoKeyring, Refusal};

/// An extractor's state, in the thread-local while the extractor is polled.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) keyring: Keyring,
    pub(crate) old_ids: Option<RequestOldIds>,
    /// A refused id becomes one that no row has.
    is_again: bool,
    /// The numbers by the prefix of the expected resource and the refused text.
    stand_ins: HashMap<(&'static str, String), u32>,
    /// serde's errors are texts.
    refused: Option<Record>,
    place: Place,
    /// The JSON pointer of a failed value.
    pointer: String,
    within: String,
}

pub(crate) type Record = (Option<&'static str>, IdError);

/// The part of a request that an extractor reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The path or the query. Every value is a text.
    Url,
    /// The body.
    Body,
}

/// The keyring that the innermost layer lends to a request, if any.
#[derive(Clone, Debug)]
pub struct Lent(
    /// The keyring.
    pub Option<Keyring>,
);

thread_local! {
    static SCOPE: RefCell<Option<Scope>> = const { RefCell::new(None) };
    static LENT: RefCell<Lent> = const { RefCell::new(Lent(None)) };
    static HAS_NO_KEYRING: Cell<bool> = const { Cell::new(false) };
}

/// Runs a framework's extractor and opens the ids in it.
///
/// # Errors
/// [`Failed`]. Its [`again`](Failed::again) returns the reason.
pub async fn extract<T, E>(
    keyring: Keyring,
    old_ids: Option<RequestOldIds>,
    place: Place,
    extractor: impl Future<Output = Result<T, E>>,
) -> Result<T, Failed<E>> {
    let scope = Scope {
        keyring,
        old_ids,
        is_again: false,
        stand_ins: HashMap::new(),
        refused: None,
        place,
        pointer: String::new(),
        within: String::new(),
    };
    let (extracted, scope) = scope.run(extractor).await;
    extracted.map_err(|error| Failed { error, scope })
}

/// An extractor that failed because of an id or for another reason.
#[derive(Debug)]
pub struct Failed<E> {
    error: E,
    scope: Scope,
}

impl<E> Failed<E> {
    /// Returns the error, and the refusal of an id if nothing else is wrong.
    ///
    /// If only ids were refused, the extractor runs again with stand-ins for them. Other errors of a request
    /// must be the same for genuine and for refused ids, because they would otherwise reveal which id is
    /// genuine. So the ids of the second run are equal if their texts are equal, or if they open to the same
    /// row.
    pub async fn again<T>(
        self,
        extractor: impl Future<Output = Result<T, E>>,
    ) -> (E, Option<Refusal>) {
        let Self { error, mut scope } = self;
        let Some((resource, reason)) = scope.refused.take() else {
            return (error, None);
        };
        let pointer = (scope.place == Place::Body).then(|| mem::take(&mut scope.pointer));
        scope.is_again = true;
        match scope.run(extractor).await {
            (Err(other), Scope { refused: None, .. }) => (other, None),
            _ => (error, Some(Refusal::new(resource, reason, pointer))),
        }
    }
}

impl Scope {
    /// Returns the scope with the last refused id.
    async fn run<F: Future>(self, extractor: F) -> (F::Output, Self) {
        /// Restores the thread's scope even after a panic.
        struct Entered<'a>(&'a mut Option<Scope>, Option<Extractor>);

        impl<'a> Entered<'a> {
            fn new(scope: &'a mut Option<Scope>) -> Self {
                let is_text = scope.as_ref().is_some_and(|scope| scope.place == Place::Url);
                let before = replace_extractor(Some(Extractor { is_text, open_old_id, stand_in }));
                SCOPE.with_borrow_mut(|current| swap(current, scope));
                Self(scope, before)
            }
        }

        impl Drop for Entered<'_> {
            fn drop(&mut self) {
                let _ = replace_extractor(self.1);
                SCOPE.with_borrow_mut(|current| swap(current, self.0));
            }
        }

        let mut scope = Some(self);
        let mut extractor = pin!(extractor);
        let output = poll_fn(|context| {
            let _entered = Entered::new(&mut scope);
            // Another task on this thread may have left a refusal.
            let _ = take_refused();
            let polled = extractor.as_mut().poll(context);
            if polled.is_ready() {
                let refused = take_record();
                set_record(refused);
            }
            polled
        })
        .await;
        (output, scope.expect("it was exchanged back"))
    }
}

fn open_old_id(resource: TypeId, text: &str) -> OldIdResult {
    SCOPE.with_borrow(|scope| {
        let Scope { old_ids, keyring, .. } = scope.as_ref()?;
        quietly(|| old_ids.as_ref()?.external(resource, text, keyring))
    })
}

fn stand_in(resource: &'static str, text: &str) -> Option<u32> {
    SCOPE.with_borrow_mut(|scope| {
        let scope = scope.as_mut().filter(|scope| scope.is_again)?;
        scope.number(resource, text)
    })
}

impl Scope {
    fn number(&mut self, resource: &'static str, text: &str) -> Option<u32> {
        let next = self.stand_ins.len().try_into().ok()?;
        Some(*self.stand_ins.entry((resource, text.to_owned())).or_insert(next))
    }
}

/// Parses external ids in a text that may have another meaning, without recording refusals.
fn quietly<R>(parse: impl FnOnce() -> R) -> R {
    let extractor = replace_extractor(None);
    let parsed = parse();
    let _ = replace_extractor(extractor);
    parsed
}

pub(crate) fn take_record() -> Option<Record> {
    let of_core = take_refused().map(|(resource, reason)| (Some(resource), reason));
    SCOPE.with_borrow_mut(|scope| scope.as_mut()?.refused.take()).or(of_core)
}

pub(crate) fn set_record(refused: Option<Record>) {
    SCOPE.with_borrow_mut(|scope| {
        if let Some(scope) = scope {
            scope.refused = refused;
        }
    });
}

pub(crate) fn set_pointer(pointer: String) {
    SCOPE.with_borrow_mut(|scope| {
        if let Some(scope) = scope {
            scope.pointer = pointer + &mem::take(&mut scope.within);
        }
    });
}

/// In a URL, 042 is a text even if the framework converts it into a number.
pub(crate) fn is_text() -> bool {
    SCOPE.with_borrow(|scope| scope.as_ref().is_some_and(|scope| scope.place == Place::Url))
}

/// In the second run, a refused id becomes one that no row has.
pub(crate) fn open<V, E: Error>(
    resource: Option<&'static str>,
    text: &str,
    open: impl FnOnce(&Scope) -> Result<V, IdError>,
    stand_in: impl FnOnce(&Keyring, u32) -> Option<V>,
) -> Result<V, E> {
    SCOPE.with_borrow_mut(|scope| {
        let scope = scope.as_mut().ok_or_else(no_keyring)?;
        let name = resource.unwrap_or_default();
        let is_known = scope.is_again && scope.stand_ins.contains_key(&(name, text.to_owned()));
        if !is_known {
            match quietly(|| open(scope)) {
                Ok(opened) => return Ok(opened),
                Err(reason) if !scope.is_again => scope.refused = Some((resource, reason)),
                Err(_) => {}
            }
        }
        let number = scope.number(name, text);
        let number = number.filter(|_| scope.is_again);
        let stand_in = number.and_then(|number| stand_in(&scope.keyring, number));
        stand_in.ok_or_else(|| E::custom("not an id"))
    })
}

pub(crate) fn accept<R: IntoModel<M>, M, E: Error>(request: R) -> Result<M, E> {
    let keyring = SCOPE.with_borrow(|scope| scope.as_ref().map(|scope| scope.keyring.clone()));
    keyring.ok_or_else(no_keyring)?.accept(request).map_err(|error| {
        SCOPE.with_borrow_mut(|scope| {
            if let Some(scope) = scope {
                scope.refused = Some((Some(error.resource()), error.problem().into()));
                scope.within = error.pointer();
            }
        });
        E::custom(format_args!("not an id of a `{}`", error.resource()))
    })
}

/// Clients see the error unless a layer answers, so the remedy is in the log.
fn no_keyring<E: Error>() -> E {
    HAS_NO_KEYRING.set(true);
    E::custom(NoKeyring::new(
        "no keyring for an id: extract it by `Path`, `Query`, `Form` or `Json` of opaque-id-axum or opaque-id-actix, not by another extractor",
    ))
}

/// Returns whether an id found no keyring.
#[cfg_attr(not(any(feature = "actix-web4", feature = "axum-core05")), expect(dead_code))]
pub(crate) async fn watch<F: Future>(lent: Option<Lent>, answer: F) -> (F::Output, bool) {
    struct Entered(Option<Lent>);

    impl Drop for Entered {
        fn drop(&mut self) {
            if let Some(before) = self.0.take() {
                LENT.set(before);
            }
        }
    }

    let mut answer = pin!(answer);
    let mut has_none = false;
    let output = poll_fn(|context| {
        let lent = lent.as_ref().map(|lent| LENT.replace(lent.clone()));
        let _entered = Entered(lent);
        HAS_NO_KEYRING.set(false);
        let polled: Poll<F::Output> = answer.as_mut().poll(context);
        has_none |= HAS_NO_KEYRING.take();
        polled
    })
    .await;
    (output, has_none)
}

#[cfg(feature = "axum-core05")]
pub(crate) fn lent() -> Option<Keyring> {
    LENT.with_borrow(|Lent(keyring)| keyring.clone())
}
