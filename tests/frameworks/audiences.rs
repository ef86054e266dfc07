//! A keyring per request: partners who share rows, and a state with secrets that are replaced.

use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::{External, Internal, Keyring, MasterSecret, OpaqueId};
use opaque_id_web::{Opened, PageQuery, Viewed};
use serde::Deserialize;

use crate::Framework;
use crate::client::{Answer, Server};

/// A model.
#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "row", key = i64)]
pub struct Row;

/// A query, a body or a form.
#[derive(Debug, Deserialize)]
pub struct Body {
    /// A row.
    pub row: Opened<Row>,
}

/// `GET /rows/{id}`, `GET /rows?row={id}`, `POST /rows`, and `POST /forms`
pub fn key(row: &Opened<Row>) -> String {
    row.0.expose_key().to_string()
}

/// `GET /pages`
pub fn page(query: &PageQuery<Row>) -> String {
    query.ascending().range().first().expose_key().to_string()
}

/// `GET /sealed`
pub fn sealed(keyring: &Keyring) -> String {
    keyring.seal(row()).to_string()
}

/// `GET /viewed`
pub fn viewed() -> Viewed<Vec<External<Row>>> {
    Viewed::of(vec![row()])
}

/// Returns the keyring of the partner in the header `partner`, or none.
pub fn partner_keyring(keyring: &SharedKeyring, partner: Option<&[u8]>) -> Option<Keyring> {
    let name = str::from_utf8(partner?).expect("a name");
    Some(keyring.current().for_audience(name))
}

fn row() -> Internal<Row> {
    Internal::from_key(7).expect("a key")
}

fn send(server: &Server, line: &str, partner: Option<&str>, kind: &str, body: &str) -> Answer {
    let partner = partner.map(|name| format!("partner: {name}\r\n")).unwrap_or_default();
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n{partner}");
    let of_body = format!("content-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}");
    Server::end(&mut server.begin(&(head + &of_body)), "")
}

/// Sends the id and the cursor of row 7 by each extractor.
fn send_all(server: &Server, keyring: &Keyring, partner: Option<&str>) -> Vec<(u16, String)> {
    let (id, cursor) = (keyring.seal(row()), keyring.seal_cursor(row()));
    let json = format!(r#"{{"row":"{id}"}}"#);
    let form = format!("row={id}");
    let requests = [
        (format!("GET /rows/{id}"), "", ""),
        (format!("GET /rows?row={id}"), "", ""),
        ("POST /rows".to_owned(), "application/json", &*json),
        ("POST /forms".to_owned(), "application/x-www-form-urlencoded", &*form),
        (format!("GET /pages?starting_after={cursor}"), "", ""),
    ];
    let answers = requests.map(|(line, kind, body)| send(server, &line, partner, kind, body));
    answers.map(|answer| (answer.status, answer.body)).into()
}

pub fn each_partner_opens_its_own_ids_only(framework: &Framework) {
    let keyring = crate::new_keyring(0);
    let server = (framework.audiences)(SharedKeyring::new(keyring.clone()));
    let [a, b] = ["a", "b"].map(|name| keyring.for_audience(name));
    let opened = ["7", "7", "7", "7", "8"].map(|body| (200, body.to_owned()));
    for (own, partner, others) in [
        (&a, Some("a"), [&b, &keyring]),
        (&b, Some("b"), [&a, &keyring]),
        (&keyring, None, [&a, &b]),
    ] {
        assert_eq!(send_all(&server, own, partner), opened);
        for other in others {
            let refused = send_all(&server, other, partner);
            assert_eq!(
                refused.iter().map(|(status, _)| *status).collect::<Vec<_>>(),
                [404, 404, 422, 422, 404]
            );
        }
    }
    let sealed = |partner| send(&server, "GET /sealed", partner, "", "");
    assert_eq!(sealed(Some("a")).body, self::sealed(&a));
    assert_ne!(sealed(Some("b")).body, sealed(Some("a")).body);
    assert_eq!(sealed(None).status, 500, "not by the keyring of nobody");
}

pub fn views_are_sealed_for_the_partner(framework: &Framework) {
    let keyring = crate::new_keyring(0);
    let server = (framework.audiences)(SharedKeyring::new(keyring.clone()));
    let of_a = keyring.for_audience("a");
    let expected = format!(r#"["{}"]"#, self::sealed(&of_a));
    let answer = send(&server, "GET /viewed", Some("a"), "", "");
    assert_eq!((answer.status, &*answer.body), (200, &*expected));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let head = send(&server, "HEAD /viewed", Some("a"), "", "");
    assert_eq!((head.status, &*head.body), (200, ""));
}

pub fn a_state_whose_secrets_are_replaced_is_read_at_each_request(framework: &Framework) {
    let [old, new] = [(); 2].map(|()| MasterSecret::generate());
    let only_old = Keyring::builder().sealing(0, old.clone()).build().expect("a good secret");
    let both = Keyring::builder().sealing(0, old).opening(1, new.clone()).build();
    let only_new = Keyring::builder().sealing(1, new).build().expect("a good secret");
    let shared = SharedKeyring::new(only_old);
    let server = (framework.audiences)(shared.clone());
    let of_a = only_new.for_audience("a");
    for (keyring, partner) in [(&only_new, None), (&of_a, Some("a"))] {
        assert!(send_all(&server, keyring, partner).iter().all(|(status, _)| *status != 200));
    }
    shared.replace(both.expect("good secrets")).expect("both open");
    for (keyring, partner) in [(&only_new, None), (&of_a, Some("a"))] {
        assert!(send_all(&server, keyring, partner).iter().all(|(status, _)| *status == 200));
    }
}
