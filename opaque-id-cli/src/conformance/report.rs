use std::collections::BTreeMap;
use std::io::{self, Write};

use anstyle::Reset;
use serde::Serialize;
use serde_json::Value;

use super::Case;
use crate::style;

/// The file has all.
const PRINTED: usize = 5;

#[derive(Serialize)]
pub(super) struct Report {
    command: String,
    vectors: Counts,
    random_cases: Counts,
    unsupported: u32,
    /// The most likely requirement comes first.
    broken: Vec<Broken>,
    differences: Vec<Difference>,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Counts {
    cases: u32,
    different: u32,
}

impl Counts {
    fn add(&mut self, is_right: bool) {
        self.cases += 1;
        self.different += u32::from(!is_right);
    }
}

#[derive(Serialize)]
struct Broken {
    requirement: String,
    #[serde(flatten)]
    counts: Counts,
    /// From 0 to 1, how likely this requirement alone explains the different cases (Ochiai's coefficient).
    likelihood: f64,
}

#[derive(Serialize)]
struct Difference {
    #[serde(flatten)]
    case: Case,
    found: Value,
}

/// `None` means that the program does not implement the operation.
pub(super) struct CaseResult {
    pub(super) case: Case,
    pub(super) found: Value,
    pub(super) is_right: Option<bool>,
}

impl Report {
    pub(super) fn new(command: String, vectors: usize, judged: Vec<CaseResult>) -> Self {
        let mut report = Self {
            command,
            vectors: Counts::default(),
            random_cases: Counts::default(),
            unsupported: 0,
            broken: Vec::new(),
            differences: Vec::new(),
        };
        let [mut of_vectors, mut of_random] = [(); 2].map(|()| BTreeMap::<_, Counts>::new());
        for (i, CaseResult { case, found, is_right }) in judged.into_iter().enumerate() {
            let Some(is_right) = is_right else {
                report.unsupported += 1;
                continue;
            };
            let (counts, by_requirement) = match i < vectors {
                true => (&mut report.vectors, &mut of_vectors),
                false => (&mut report.random_cases, &mut of_random),
            };
            counts.add(is_right);
            for requirement in &case.requirements {
                by_requirement.entry(requirement.clone()).or_default().add(is_right);
            }
            if !is_right {
                report.differences.push(Difference { case, found });
            }
        }
        report.broken = match report.vectors.different {
            0 => broken(of_random, report.random_cases.different),
            different => broken(of_vectors, different),
        };
        report
    }

    pub(super) fn is_clean(&self) -> bool {
        self.differences.is_empty()
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { vectors, random_cases, unsupported, .. } = self;
        writeln!(
            out,
            "{} of {} vectors and {} of {} random cases differ; {unsupported} are of operations that it does not have",
            vectors.different, vectors.cases, random_cases.different, random_cases.cases
        )?;
        for Broken { requirement, counts: Counts { cases, different }, likelihood } in &self.broken
        {
            writeln!(out, "{requirement:<7} {different:>6} of {cases:>6} differ  {likelihood:.2}")?;
        }
        for Difference { case, found } in self.differences.iter().take(PRINTED) {
            let requirements = case.requirements.join(" ");
            let (request, expected) = (Value::Object(case.request.clone()), &case.answer);
            writeln!(out, "\n{}{requirements}{Reset} {}", style::ERROR, case.about)?;
            writeln!(out, "  {request}\n  expected {expected}, found {found}")?;
        }
        let others = self.differences.len().saturating_sub(PRINTED);
        match others {
            0 => Ok(()),
            _ => writeln!(out, "\n{others} more; --report writes all"),
        }
    }
}

fn broken(by_requirement: BTreeMap<String, Counts>, different: u32) -> Vec<Broken> {
    let found = by_requirement.into_iter().filter(|(_, counts)| counts.different > 0);
    let mut broken: Vec<_> = found
        .map(|(requirement, counts)| {
            let likelihood = f64::from(counts.different)
                / (f64::from(different) * f64::from(counts.cases)).sqrt();
            Broken { requirement, counts, likelihood }
        })
        .collect();
    broken.sort_by(|a, b| b.likelihood.total_cmp(&a.likelihood));
    broken
}
