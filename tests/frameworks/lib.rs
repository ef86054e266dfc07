//! The common part of the tests of all frameworks: applications, and the answers that a client must get by
//! real HTTP.

#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "the names of tests are sentences, and handlers are tests' as well"
)]

pub mod audiences;
pub mod client;
pub mod log;
pub mod old_ids;
pub mod pages;
pub mod raw_ids;
pub mod shop;

use std::net::SocketAddr;

use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId, View};
use opaque_id_web::{NotFound, Opened, PROBLEM_JSON, Problem, Refusal};

pub use self::client::{Answer, Server};

/// A framework. Its servers call the handlers of these applications.
#[derive(Clone, Copy, Debug)]
pub struct Framework {
    /// Starts a shop.
    pub shop: fn(shop::App) -> Server,
    /// Starts a shop that answers refusals in its own envelope.
    pub envelope: fn(shop::App) -> Server,
    /// Starts a server of lists.
    pub pages: fn(pages::App) -> Server,
    /// Starts a server that accepts old ids.
    pub old_ids: fn(old_ids::Layers) -> Server,
    /// Starts a server for partners.
    pub audiences: fn(SharedKeyring) -> Server,
    /// Starts a server with the routes of `raw_ids` below a layer that finds this integer.
    pub raw_ids: fn(i64) -> Server,
    /// The framework's own answers.
    pub own: Own,
}

/// The statuses of a framework's own answers, and a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// The status for a parameter of a path that is not a number.
    pub path: u16,
    /// The status for JSON with a field that is not a number.
    pub json: u16,
    /// A part of the answer to JSON with an integer in place of a name.
    pub integer: &'static str,
    /// The status for a form with a field that is not a number.
    pub form: u16,
    /// The status for JSON of another content type.
    pub content_type: u16,
    /// The status for an id in the framework's own extractor, if a layer of ours is around every route.
    pub no_keyring: Option<u16>,
}

/// Writes the tests of a framework, a constant.
#[macro_export]
macro_rules! tests {
    ($framework:ident) => {
        $crate::tests! {
            $framework:
            shop:
                every_refusal_in_a_path_is_the_same_answer
                what_else_is_wrong_with_a_request_does_not_depend_on_its_ids
                a_body_that_compares_its_ids_has_one_answer
                mapped_ids_are_parsed
                refusals_in_a_body_say_where
                requests_have_the_same_answers_whoever_opens_them
                everything_else_is_the_frameworks_answer
                the_frameworks_own_extractors_are_an_error_of_the_server
                lists_and_empty_values_are_those_of_forms
                an_id_of_several_resources_has_the_same_answers
                ids_that_a_field_parses_have_the_same_answers
                requests_are_accepted_in_the_extractor
                refusals_are_logged_in_the_span_of_their_request
                every_refusal_has_the_envelope_of_an_application
                extractors_that_wait_keep_their_own_keyring_and_refusals
                forms_are_bodies;
            raw_ids: no_response_has_an_internal_value;
            pages: links_lead_through_the_list_and_back links_lead_through_a_list_by_another_column refused_positions_are_not_found links_keep_other_parameters_and_nothing_else long_queries_have_no_links refused_cursors_are_not_found what_is_no_page_is_a_bad_request;
            old_ids: an_accepted_old_id_is_opened_with_a_notice requests_accept_old_ids layers_add_up_and_bound_what_is_accepted every_refusal_is_the_same_answer;
            audiences: each_partner_opens_its_own_ids_only views_are_sealed_for_the_partner a_state_whose_secrets_are_replaced_is_read_at_each_request;
        }
    };
    ($framework:ident: $($module:ident: $($test:ident)*;)*) => {
        mod shared {
            $(mod $module {
                use super::super::$framework as FRAMEWORK;

                $(#[test]
                fn $test() {
                    $crate::$module::$test(&FRAMEWORK);
                })*
            })*
        }
    };
}

/// Returns a keyring with one new secret.
#[must_use]
pub fn new_keyring(key_id: u8) -> Keyring {
    let keyring = Keyring::builder().sealing(key_id, MasterSecret::generate());
    keyring.build().expect("a good secret")
}

/// A model.
#[derive(Debug, OpaqueId, View)]
#[opaque_id(prefix = "user", form = "tagged")]
#[view(into = UserView, derive(Debug, serde::Serialize))]
pub struct User {
    /// The key.
    pub id: Internal<User>,
}

/// Another model.
#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "team", key = i64)]
pub struct Team;

/// A request to invite a user.
#[derive(Debug, serde::Deserialize)]
pub struct Invite {
    /// The user.
    pub user: Opened<User>,
}

/// The state of a server.
#[derive(Clone, Debug)]
pub struct App {
    /// The keyring.
    pub keyring: Keyring,
    user: Internal<User>,
}

impl Default for App {
    fn default() -> Self {
        Self { keyring: new_keyring(0), user: Internal::generate() }
    }
}

impl App {
    /// Finds the row.
    #[must_use]
    pub fn find(&self, id: Internal<User>) -> Option<User> {
        (id == self.user).then_some(User { id })
    }

    /// Sends requests to `GET /users/{id}` and `POST /invitations` of a server, and checks the answers.
    ///
    /// # Panics
    /// If an answer is wrong.
    pub fn check(&self, address: SocketAddr) {
        let server = Server::new(address, ());
        let read = |answer: Answer| {
            let kind = answer.header("content-type").expect("a type").to_owned();
            (answer.status, kind, answer.body)
        };
        let get = |id: &str| read(server.get(&format!("/users/{id}")));
        let invite = |id: &str| {
            let body = format!(r#"{{"user":"{id}"}}"#);
            read(server.post("/invitations", "application/json", &body))
        };

        let good = self.keyring.seal(self.user).to_string();
        for (status, _, body) in [get(&good), invite(&good)] {
            assert_eq!((status, body), (200, format!(r#"{{"id":"{good}"}}"#)));
        }
        let other = Self::default();
        let team = Internal::<Team>::from_key(7).expect("a key");
        let no_row = self.keyring.seal(Internal::<User>::generate());
        let problem =
            |problem: Problem| (problem.status.as_u16(), PROBLEM_JSON.to_owned(), problem.body);
        let not_found = problem(NotFound.problem());
        let refused = problem(Refusal::no_row_in_body::<User>("/user").problem());
        for id in [
            "42",
            &no_row.to_string(),
            &good.to_uppercase(),
            &self.keyring.seal(team).to_string(),
            &other.keyring.seal(other.user).to_string(),
        ] {
            assert_eq!(get(id), not_found, "{id}");
            assert_eq!(invite(id), refused, "{id}");
        }
        assert_eq!(invite("\",").0, 400, "malformed JSON");
    }
}

/// Asserts that a page shows these files without a change.
///
/// # Panics
/// If it shows other code.
pub fn assert_shown(page: &str, files: [&str; 2]) {
    for file in files {
        assert!(page.contains(file), "the page must show this file:\n{file}");
    }
}
