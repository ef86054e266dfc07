//! A list that a client reads by the links in the answers.

use std::cmp::Ordering;

use opaque_id_core::page::{Listing, PageRequest};
use opaque_id_core::{Internal, Keyring, OpaqueId, Position};
use opaque_id_web::{Links, ListingQuery, PageQuery, Refusal};

use crate::client::{Answer, Server, assert_alike};
use crate::shop::assert_not_found;
use crate::{Framework, new_keyring};

/// A model.
#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "row", key = i64)]
pub struct Row;

#[derive(OpaqueId)]
#[opaque_id(prefix = "other", key = i64)]
struct Other;

/// The state of an application. Its methods are the handlers.
#[derive(Clone, Debug)]
pub struct App {
    /// The keyring.
    pub keyring: Keyring,
    /// The last key of the table. The first is 1.
    rows: i64,
}

/// The parameters of a page.
pub type KeyPage = PageQuery<Row, 2, 5>;

/// The parameters of a page by another column.
pub type ListingPage = ListingQuery<2, 5>;

fn id(key: i64) -> Internal<Row> {
    Internal::from_key(key).expect("a key")
}

impl App {
    fn query(&self, request: &PageRequest<Position<Internal<Row>>>) -> Vec<Internal<Row>> {
        let mut rows: Vec<_> = (1..=self.rows).map(id).collect();
        rows.retain(|row| request.range().contains(*row));
        if request.is_descending() {
            rows.reverse();
        }
        rows.truncate(usize::try_from(request.fetch()).expect("small"));
        rows
    }

    fn answer(
        &self,
        query: &KeyPage,
        request: PageRequest<Position<Internal<Row>>>,
    ) -> (Links, String) {
        let page = request.finish(self.query(&request), |row| self.keyring.seal_cursor(*row));
        let keys = page.rows.iter().map(|row| row.expose_key().to_string());
        let more = if page.has_more { " more" } else { "" };
        (query.links(&page), keys.collect::<Vec<_>>().join(" ") + more)
    }

    /// `GET /v1/ascending`
    pub fn ascending(&self, query: &KeyPage) -> (Links, String) {
        self.answer(query, query.ascending())
    }

    /// `GET /v1/descending`
    pub fn descending(&self, query: &KeyPage) -> (Links, String) {
        self.answer(query, query.descending())
    }

    /// `GET /v1/rests?above=1`, ordered by the remainder of a division by three
    pub fn rests(&self, filter: &Filter, query: &ListingPage) -> Result<(Links, String), Refusal> {
        let listing = by_rest(filter.above);
        let request = query.descending(&self.keyring, &listing)?;
        let mut rows: Vec<_> =
            (filter.above + 1..=self.rows).map(|key| (key % 3, id(key))).collect();
        rows.sort();
        if request.is_descending() {
            rows.reverse();
        }
        if let Some(position) = request.position() {
            let beyond = if request.is_descending() { Ordering::Less } else { Ordering::Greater };
            rows.retain(|row| row.cmp(position) == beyond);
        }
        rows.truncate(usize::try_from(request.fetch()).expect("small"));
        let page = request.finish(rows, |(rest, row)| listing.seal(&self.keyring, rest, *row));
        let page = page.transpose().expect("a number is JSON");
        let keys = page.rows.iter().map(|(_, row)| row.expose_key().to_string());
        Ok((query.links(&page), keys.collect::<Vec<_>>().join(" ")))
    }
}

/// A query.
#[derive(Debug, serde::Deserialize, serde::Serialize)]
pub struct Filter {
    above: i64,
}

type ByRest = Listing<Internal<Row>, i64>;

fn by_rest(above: i64) -> ByRest {
    Listing::new("rows by rest", &Filter { above }).expect("a number is JSON")
}

fn list(framework: &Framework, rows: i64) -> (Server, Keyring) {
    let keyring = new_keyring(0);
    ((framework.pages)(App { keyring: keyring.clone(), rows }), keyring)
}

/// Returns the target of the link with a relation.
fn link(answer: &Answer, relation: &str) -> Option<String> {
    let links = answer.header("link")?.split(", ");
    let found = links.filter_map(|link| link.strip_prefix('<')?.split_once(">; rel="));
    found
        .filter(|(_, found)| *found == format!("\"{relation}\""))
        .map(|(target, _)| target.to_owned())
        .next()
}

/// Follows a relation to its end.
fn follow(server: &Server, list: &str, start: &str, relation: &str) -> (Vec<String>, String) {
    let mut target = start.to_owned();
    let mut bodies = Vec::new();
    loop {
        let answer = server.get(&format!("/v1/{list}{target}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        bodies.push(answer.body.clone());
        match link(&answer, relation) {
            Some(next) => target = next,
            None => return (bodies, target),
        }
    }
}

pub fn links_lead_through_the_list_and_back(framework: &Framework) {
    let (server, _) = list(framework, 5);
    for (list, forth, back) in [
        ("ascending", ["1 2 more", "3 4 more", "5"], ["3 4 more", "1 2"]),
        ("descending", ["5 4 more", "3 2 more", "1"], ["3 2 more", "5 4"]),
    ] {
        let (bodies, last) = follow(&server, list, "", "next");
        assert_eq!(bodies, forth);
        let (bodies, _) = follow(&server, list, &last, "prev");
        assert_eq!(bodies[1..], back);
        let (bodies, _) = follow(&server, list, "?limit=4&q=%3Ca%26b%3E&%C3%A9=%FF", "next");
        assert_eq!(bodies.len(), 2);
    }
    // The list has as many rows as the page.
    let (bodies, _) = follow(&server, "ascending", "?limit=5", "next");
    assert_eq!(bodies, ["1 2 3 4 5"]);
    let (server, _) = self::list(framework, 0);
    let answer = server.get("/v1/descending");
    assert_eq!((&*answer.body, answer.header("link")), ("", None));
}

pub fn links_lead_through_a_list_by_another_column(framework: &Framework) {
    let (server, _) = list(framework, 6);
    let (bodies, last) = follow(&server, "rests", "?above=1", "next");
    assert_eq!(bodies, ["5 2", "4 6", "3"]);
    assert!(last.starts_with("?above=1&starting_after=row_position_"), "{last}");
    let (bodies, _) = follow(&server, "rests", &last, "prev");
    assert_eq!(bodies, ["3", "4 6", "5 2"]);
}

pub fn refused_positions_are_not_found(framework: &Framework) {
    let (server, keyring) = list(framework, 6);
    let seal = |keyring: &Keyring, above| by_rest(above).seal(keyring, &2, id(2)).expect("JSON");
    let good = seal(&keyring, 1);
    let elsewhere = Listing::<Internal<Row>, i64>::new("rows", &Filter { above: 1 });
    let elsewhere = elsewhere.and_then(|list| list.seal(&keyring, &2, id(2))).expect("JSON");
    let get = |position| server.get(&format!("/v1/rests?above=1&starting_after={position}"));
    assert_eq!(get(good.clone()).status, 200);
    let mut whole = Vec::new();
    for (what, position) in [
        ("empty", String::new()),
        ("a cursor", keyring.seal_cursor(id(2)).to_string()),
        ("of another list", elsewhere),
        ("of another filter", seal(&keyring, 2)),
        ("of another secret", seal(&new_keyring(0), 1)),
        ("cut off", good[..good.len() - 2].to_owned()),
    ] {
        let answer = get(position);
        assert_not_found(&answer, what);
        whole.push(answer);
    }
    assert_alike(whole);
    let answer = server.get("/v1/rests?above=1&limit=6");
    assert_eq!(answer.status, 400);
}

pub fn links_keep_other_parameters_and_nothing_else(framework: &Framework) {
    let (server, keyring) = list(framework, 5);
    let cursor = keyring.seal_cursor(id(2));
    let answer =
        server.get(&format!("/v1/ascending?q=%3Ca%26b%3E&limit=2&starting%5Fafter={cursor}"));
    let [next, previous] = [4, 3].map(|key| keyring.seal_cursor(id(key)));
    let expected = format!(
        "<?q=%3Ca%26b%3E&limit=2&starting_after={next}>; rel=\"next\", <?q=%3Ca%26b%3E&limit=2&ending_before={previous}>; rel=\"prev\""
    );
    assert_eq!(answer.header("link"), Some(&*expected));
}

/// A client could make the server send headers that its proxy refuses.
pub fn long_queries_have_no_links(framework: &Framework) {
    let (server, _) = list(framework, 5);
    for (len, has_link) in [(2_900, true), (3_060, false), (50_000, false)] {
        let answer = server.get(&format!("/v1/ascending?q={}", "a".repeat(len)));
        assert_eq!(answer.body, "1 2 more");
        assert_eq!(link(&answer, "next").is_some(), has_link, "{len}");
    }
    // Each of these characters has three bytes in the link.
    let answer = server.get(&format!("/v1/ascending?q={}", "%3E".repeat(1_100)));
    assert_eq!(answer.header("link"), None);
}

pub fn refused_cursors_are_not_found(framework: &Framework) {
    let (server, keyring) = list(framework, 5);
    let other = new_keyring(0);
    let foreign = Internal::<Other>::from_key(2).expect("a key");
    let good = keyring.seal_cursor(id(2)).to_string();
    let tampered = match good.strip_suffix('0') {
        Some(most) => format!("{most}1"),
        None => format!("{}0", &good[..good.len() - 1]),
    };
    let mut whole = Vec::new();
    for (what, cursor) in [
        ("empty", String::new()),
        ("malformed", "2".to_owned()),
        ("an id", keyring.seal(id(2)).to_string()),
        ("another list's", keyring.seal_cursor(foreign).to_string()),
        ("another secret's", other.seal_cursor(id(2)).to_string()),
        ("tampered", tampered),
        ("NUL", format!("{good}%00")),
        ("not UTF-8", "row_cursor_%FF".to_owned()),
    ] {
        for name in ["starting_after", "ending_before"] {
            let answer = server.get(&format!("/v1/ascending?{name}={cursor}"));
            assert_not_found(&answer, what);
            whole.push(answer);
        }
    }
    assert_alike(whole);
}

pub fn what_is_no_page_is_a_bad_request(framework: &Framework) {
    let (server, keyring) = list(framework, 5);
    let cursor = keyring.seal_cursor(id(2));
    let limit = "expected a `limit` from 1 to 5";
    for (query, detail) in [
        ("limit=0", limit),
        ("limit=6", limit),
        ("limit=-1", limit),
        ("limit=", limit),
        ("limit=two", limit),
        ("limit=99999999999999999999", limit),
        ("limit=2&limit=2", "expected one `limit`, found several"),
        (
            &format!("starting_after={cursor}&ending_before={cursor}"),
            "expected one of `starting_after` and `ending_before`, found both",
        ),
        (
            &format!("starting_after={cursor}&starting_after={cursor}"),
            "expected one `starting_after`, found several",
        ),
    ] {
        let answer = server.get(&format!("/v1/ascending?{query}"));
        let expected = format!(
            r#"{{"type":"about:blank","title":"Bad Request","status":400,"detail":"{detail}"}}"#
        );
        assert_eq!((answer.status, &*answer.body), (400, &*expected), "{query}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    }
}
