//! The size of a document, computed before it is executed.

use std::collections::HashMap;

use async_graphql::parser::types::{ExecutableDocument, Selection, SelectionSet};

const ENDLESS: usize = usize::MAX;
const MAX_DEPTH: usize = 32;

/// Fragments are written out, and each is read once.
pub(crate) fn exceeds(document: &ExecutableDocument, limit: usize) -> bool {
    let mut sizes = Sizes { document, of_fragments: HashMap::new() };
    let operations = document.operations.iter().map(|(_, it)| &it.node.selection_set.node);
    let fragments = document.fragments.values().map(|it| &it.node.selection_set.node);
    let total = operations.chain(fragments).map(|set| sizes.of(set, 0));
    total.fold(0, usize::saturating_add) > limit
}

struct Sizes<'d> {
    document: &'d ExecutableDocument,
    of_fragments: HashMap<&'d str, usize>,
}

impl<'d> Sizes<'d> {
    fn of(&mut self, set: &'d SelectionSet, depth: usize) -> usize {
        if depth > MAX_DEPTH {
            return ENDLESS;
        }
        set.items.iter().fold(0, |sum: usize, selection| {
            let inner = match &selection.node {
                Selection::Field(field) => self.of(&field.node.selection_set.node, depth + 1),
                Selection::InlineFragment(it) => self.of(&it.node.selection_set.node, depth + 1),
                Selection::FragmentSpread(it) => {
                    self.fragment_size(&it.node.fragment_name.node, depth)
                }
            };
            sum.saturating_add(inner).saturating_add(1)
        })
    }

    fn fragment_size(&mut self, name: &'d str, depth: usize) -> usize {
        let Some(fragment) = self.document.fragments.get(name) else { return 0 };
        if let Some(size) = self.of_fragments.get(name) {
            return *size;
        }
        // A fragment that contains itself finds this size.
        self.of_fragments.insert(name, ENDLESS);
        let size = self.of(&fragment.node.selection_set.node, depth + 1);
        self.of_fragments.insert(name, size);
        size
    }
}
