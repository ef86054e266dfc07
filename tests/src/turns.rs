//! All schedules of two clients: every order of their statements, and a death of either client between any
//! two.

/// The turns of one schedule after the other.
#[derive(Default)]
pub struct Turns {
    /// The chosen turn of each step of the schedule, and the number of possible turns.
    steps: Vec<(usize, usize)>,
    /// The number of taken steps.
    taken: usize,
    has_died: bool,
    last: Option<usize>,
}

/// The next step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// This client runs its next statement.
    Run(usize),
    /// This client dies.
    Die(usize),
}

impl Turns {
    /// Returns the next step, or `None` if neither client has a statement left.
    pub fn next(&mut self, has_statement: [bool; 2]) -> Option<Turn> {
        let running: Vec<_> = (0..2).filter(|client| has_statement[*client]).collect();
        // A client that dies later, without another statement, leaves the same state behind.
        let may_die =
            |client: &&usize| !self.has_died && self.last.is_none_or(|last| last == **client);
        let dying = running.iter().filter(may_die).map(|client| Turn::Die(*client));
        let turns: Vec<_> = running.iter().map(|client| Turn::Run(*client)).chain(dying).collect();
        if turns.is_empty() {
            return None;
        }
        if self.taken == self.steps.len() {
            self.steps.push((0, turns.len()));
        }
        let turn = turns[self.steps[self.taken].0];
        self.taken += 1;
        match turn {
            Turn::Run(client) => self.last = Some(client),
            Turn::Die(_) => self.has_died = true,
        }
        Some(turn)
    }

    /// Begins the next schedule. Returns whether there is one.
    pub fn next_schedule(&mut self) -> bool {
        while self.steps.pop_if(|(turn, turns)| *turn + 1 == *turns).is_some() {}
        (self.taken, self.has_died, self.last) = (0, false, None);
        match self.steps.last_mut() {
            Some((turn, _)) => {
                *turn += 1;
                true
            }
            None => false,
        }
    }

    /// Returns the steps of the schedule for a message.
    #[must_use]
    pub fn steps(&self) -> Vec<usize> {
        self.steps.iter().map(|(turn, _)| *turn).collect()
    }
}
