//! The conformance kit of spec/.

mod ours;
mod random;
mod report;

use std::collections::HashSet;
use std::error::Error;
use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use clap::Args as ClapArgs;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use self::ours::Ours;
use self::report::{CaseResult, Report};

#[derive(Debug, ClapArgs)]
pub(crate) struct Conformance {
    /// The number of random cases after the vectors
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    random: usize,
    /// The seed of the random cases; a number always gives the same cases, except for nonces of tokens
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Write a report with all differences, in JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Answer the protocol instead, like this implementation
    #[arg(long, conflicts_with_all = ["random", "seed", "report", "command"])]
    answer: bool,
    /// The program that answers, with its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "answer")]
    command: Vec<String>,
}

#[derive(Deserialize, Serialize)]
struct Case {
    /// The requirements of FORMAT.md that it tests or that an answer depends on.
    requirements: Vec<String>,
    about: String,
    /// The answer is `null` for a refusal, and `"opens"` if ours must open the random answer.
    answer: Value,
    #[serde(flatten)]
    request: Map<String, Value>,
}

const VECTORS: &str = include_str!("vectors.jsonl");

fn vectors() -> serde_json::Result<Vec<Case>> {
    VECTORS.lines().map(serde_json::from_str).collect()
}

pub(crate) fn run(out: &mut impl Write, args: Conformance) -> Result<bool, Box<dyn Error>> {
    if args.answer {
        return answer(out);
    }
    let mut ours = Ours::default();
    let mut cases = vectors()?;
    let vectors = cases.len();
    let random = random::cases(args.seed, args.random, &cases, &mut ours);
    cases.extend(random);

    let answers = ask(&args.command, &cases)?;
    let mut nonces = HashSet::new();
    let judged = cases.into_iter().zip(answers).map(|(case, found)| {
        // An answer that is not JSON is wrong.
        let found = serde_json::from_str(&found).unwrap_or(Value::String(found));
        let is_right = is_right(&case, &found, &mut ours, &mut nonces);
        CaseResult { case, found, is_right }
    });
    let judged = judged.collect();
    let report = Report::new(args.command.join(" "), vectors, judged);
    if let Some(file) = args.report {
        fs::write(file, serde_json::to_string_pretty(&report)?)?;
    }
    report.print(out)?;
    Ok(report.is_clean())
}

fn answer(out: &mut impl Write) -> Result<bool, Box<dyn Error>> {
    let mut ours = Ours::default();
    for line in io::stdin().lock().lines() {
        let request: Map<String, Value> = serde_json::from_str(&line?)?;
        let answer = match ours.answer(&request) {
            Some(answer) => json!({ "ok": answer }),
            None => json!({ "refused": true }),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(true)
}

fn ask(command: &[String], cases: &[Case]) -> Result<Vec<String>, Box<dyn Error>> {
    let [program, args @ ..] = command else {
        return Err("expected a command".into());
    };
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    let pipes = child.stdin.take().zip(child.stdout.take());
    let (input, output) = pipes.ok_or("the pipes are missing")?;
    let lines = thread::scope(|scope| {
        // Another thread writes while answers are read, because a pipe has little room.
        scope.spawn(|| {
            let mut input = BufWriter::new(input);
            // The number of answers shows whether the program ended early.
            let _ = cases.iter().try_for_each(|case| writeln!(input, "{}", json!(case.request)));
        });
        BufReader::new(output).lines().take(cases.len()).collect::<io::Result<Vec<_>>>()
    });
    let lines = lines.inspect_err(|_| stop(&mut child))?;
    match lines.len() == cases.len() {
        true => {
            child.wait()?;
            Ok(lines)
        }
        false => {
            let status = child.wait()?;
            let asked = json!(cases[lines.len()].request);
            Err(format!(
                "it ended ({status}) instead of answering request {}: {asked}",
                lines.len() + 1
            )
            .into())
        }
    }
}

fn stop(child: &mut Child) {
    // The calls fail if the program has already ended.
    let _ = child.kill();
    let _ = child.wait();
}

/// `None` means that the program does not implement the operation.
fn is_right(
    case: &Case,
    found: &Value,
    ours: &mut Ours,
    nonces: &mut HashSet<String>,
) -> Option<bool> {
    if found["unsupported"] == true {
        return None;
    }
    let ok = found.get("ok");
    Some(match (&case.answer, ok) {
        (Value::Null, ok) => ok.is_none() && found.get("refused").is_some(),
        (Value::String(opens), Some(Value::String(token))) if opens == "opens" => {
            opens_as_sealed(&case.request, token, ours) && nonces.insert(nonce(token).to_owned())
        }
        (expected, ok) => ok == Some(expected),
    })
}

fn nonce(token: &str) -> &str {
    let (_, body) = token.rsplit_once('_').unwrap_or_default();
    body.get(..20).unwrap_or(body)
}

fn opens_as_sealed(sealed: &Map<String, Value>, token: &str, ours: &mut Ours) -> bool {
    let mut request = sealed.clone();
    let mut open = |op: &str, now: u64| {
        request.extend([
            ("op".to_owned(), json!(op)),
            ("id".to_owned(), json!(token)),
            ("now".to_owned(), json!(now)),
        ]);
        ours.answer(&request)
    };
    let key = json!({ "key": sealed["key"] });
    match sealed.get("expires").and_then(Value::as_u64) {
        Some(expires) => {
            open("open_grant", expires.saturating_sub(1)) == Some(key)
                && open("open_grant", expires).is_none()
        }
        None => {
            let values = &sealed["values"];
            open("open_position", 0) == Some(json!({ "key": sealed["key"], "values": values }))
        }
    }
}
