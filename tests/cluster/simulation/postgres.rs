//! A proxy of PostgreSQL's protocol, by the messages of the `pgwire` crate.

use std::collections::HashMap;

use bytes::BytesMut;
use opaque_id_tests::Result;
use pgwire::messages::response::{ErrorResponse, ReadyForQuery, TransactionStatus};
use pgwire::messages::simplequery::Query;
use pgwire::messages::startup::Authentication;
use pgwire::messages::{
    DecodeContext, PgWireBackendMessage as Answer, PgWireFrontendMessage as Message,
    ProtocolVersion, SslNegotiationMetaMessage,
};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

use super::{Like, Simulation, is_statement, random, read, starts_with, write};

pub(super) async fn proxy(simulation: Simulation, client: TcpStream, server: TcpStream) -> Result {
    let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
    let mut received = BytesMut::new();
    let mut session = Session {
        simulation,
        client,
        server,
        received: BytesMut::new(),
        status: TransactionStatus::Idle,
        statements: HashMap::new(),
    };
    let mut batch = Vec::new();
    loop {
        let Some(message) = Message::decode(&mut received, &context)? else {
            read(&mut session.client, &mut received).await?;
            continue;
        };
        match message {
            Message::SslNegotiation(SslNegotiationMetaMessage::None) => {
                context.awaiting_frontend_ssl = false;
            }
            Message::SslNegotiation(_) => write(&mut session.client, b"N").await?,
            Message::CancelRequest(_) => {
                session.send(&message).await?;
                copy_bidirectional(&mut session.client, &mut session.server).await?;
                return Ok(());
            }
            Message::Startup(_) => {
                context.awaiting_frontend_startup = false;
                session.send(&message).await?;
                session.log_in().await?;
            }
            Message::PasswordMessageFamily(_) => {
                session.send(&message).await?;
                session.log_in().await?;
            }
            Message::Terminate(_) => return Ok(()),
            message => {
                let is_last = matches!(message, Message::Query(_) | Message::Sync(_));
                batch.push(message);
                if is_last {
                    session.run(std::mem::take(&mut batch)).await?;
                }
            }
        }
    }
}

struct Session {
    simulation: Simulation,
    client: TcpStream,
    server: TcpStream,
    /// The bytes from the server.
    received: BytesMut,
    status: TransactionStatus,
    statements: HashMap<String, String>,
}

impl Session {
    async fn send(&mut self, message: &Message) -> Result {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes)?;
        write(&mut self.server, &bytes).await
    }

    async fn answer(&mut self, answer: &Answer) -> Result {
        let mut bytes = BytesMut::new();
        answer.encode(&mut bytes)?;
        write(&mut self.client, &bytes).await
    }

    async fn receive(&mut self) -> Result<Answer> {
        let context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
        loop {
            if let Some(answer) = Answer::decode(&mut self.received, &context)? {
                return Ok(answer);
            }
            read(&mut self.server, &mut self.received).await?;
        }
    }

    /// Forwards the server's answers until it waits for the client.
    async fn log_in(&mut self) -> Result {
        loop {
            let answer = self.receive().await?;
            if let Answer::ReadyForQuery(_) = answer {
                let isolation = match self.simulation.like {
                    Like::Cockroach => "SERIALIZABLE",
                    _ => "REPEATABLE READ",
                };
                self.alone(&format!(
                    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {isolation}"
                ))
                .await?;
                return self.answer(&answer).await;
            }
            self.answer(&answer).await?;
            match answer {
                Answer::Authentication(Authentication::Ok | Authentication::SASLFinal(_)) => {}
                Answer::Authentication(_) => return Ok(()),
                Answer::ErrorResponse(_) => return Err("the server refused the client".into()),
                _ => {}
            }
        }
    }

    /// Runs a statement without the client's knowledge.
    async fn alone(&mut self, sql: &str) -> Result {
        self.send(&Message::Query(Query::new(sql.to_owned()))).await?;
        while !matches!(self.receive().await?, Answer::ReadyForQuery(_)) {}
        Ok(())
    }

    /// Forwards a request and its answers, or makes it fail.
    async fn run(&mut self, mut batch: Vec<Message>) -> Result {
        let mut executed = Vec::new();
        let mut names_one = false;
        for message in &mut batch {
            match message {
                Message::Query(query) => {
                    query.query = self.as_engine(&query.query);
                    executed.push(query.query.clone());
                }
                Message::Parse(parse) => {
                    parse.query = self.as_engine(&parse.query);
                    let name = parse.name.clone().unwrap_or_default();
                    names_one |= !name.is_empty();
                    self.statements.insert(name, parse.query.clone());
                }
                Message::Bind(bind) => {
                    let name = bind.statement_name.clone().unwrap_or_default();
                    executed.extend(self.statements.get(&name).cloned());
                }
                _ => {}
            }
        }
        let sql = executed.join(";");
        if starts_with(&sql, "COMMIT") {
            if self.status == TransactionStatus::Transaction && self.simulation.fails(&sql, true) {
                self.alone("ROLLBACK").await?;
                self.status = TransactionStatus::Idle;
                let (code, message) = self.conflict();
                let fields = [(b'S', "ERROR"), (b'V', "ERROR"), (b'C', code), (b'M', message)];
                let fields = fields.map(|(field, text)| (field, text.to_owned())).to_vec();
                self.answer(&Answer::ErrorResponse(ErrorResponse::new(fields))).await?;
                let ready = ReadyForQuery::new(TransactionStatus::Idle);
                return self.answer(&Answer::ReadyForQuery(ready)).await;
            }
        } else if let Some((code, message)) = self.failure(&sql)
            && !names_one
        {
            // The server itself raises the error, so that it ends the transaction.
            let raise =
                format!("DO $$ BEGIN RAISE EXCEPTION '{message}' USING ERRCODE = '{code}'; END $$");
            batch = vec![Message::Query(Query::new(raise))];
        }
        for message in &batch {
            self.send(message).await?;
        }
        loop {
            let answer = self.receive().await?;
            self.answer(&answer).await?;
            match answer {
                Answer::ReadyForQuery(ready) => {
                    self.status = ready.status;
                    return Ok(());
                }
                Answer::CopyInResponse(_) | Answer::CopyBothResponse(_) => {
                    return Err("a copy is not simulated".into());
                }
                _ => {}
            }
        }
    }

    fn failure(&self, sql: &str) -> Option<(&'static str, &'static str)> {
        let is_alone = self.status == TransactionStatus::Idle;
        let is_ddl = ["CREATE", "DROP", "ALTER"].iter().any(|verb| starts_with(sql, verb));
        match self.simulation.like {
            _ if self.status == TransactionStatus::Error => None,
            _ if sql.contains("pg_advisory") => {
                Some(("42883", "unknown function: pg_advisory_xact_lock"))
            }
            Like::Dsql if is_ddl && !is_alone => {
                Some(("0A000", "ddl and dml are not supported in the same transaction"))
            }
            // Reads alone never conflict there, and conflicts appear only at the commit.
            Like::Dsql if !is_alone || starts_with(sql, "SELECT") => None,
            _ if is_statement(sql) && self.simulation.fails(sql, !is_alone) => {
                Some(self.conflict())
            }
            _ => None,
        }
    }

    fn conflict(&self) -> (&'static str, &'static str) {
        match self.simulation.like {
            Like::Dsql if random().is_multiple_of(2) => {
                ("OC000", "change conflicts with another transaction, please retry: (OC000)")
            }
            Like::Dsql => {
                ("OC001", "schema has been updated by another transaction, please retry: (OC001)")
            }
            _ => ("40001", "restart transaction: TransactionRetryWithProtoRefreshError"),
        }
    }

    /// Replaces text that identifies the server or that the server does not know.
    fn as_engine(&self, sql: &str) -> String {
        match self.simulation.like {
            Like::Dsql => sql.replace(
                "FROM pg_catalog.pg_class WHERE",
                "FROM (SELECT 'iam_pg_role_mappings' AS relname) AS c WHERE",
            ),
            _ => sql.replace(
                "SELECT version()",
                "SELECT CAST('CockroachDB CCL v25.4.0 (simulated)' AS text)",
            ),
        }
    }
}
