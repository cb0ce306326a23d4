//! Value numbers: two expressions have the same number if they are the same operation on the same
//! values (Cocke & Schwartz, *Programming Languages and Their Compilers*, 1970; Alpern, Wegman &
//! Zadeck, 1988). Both lists share one table.

use millstream_types::{Access, TensorSpec};
use rustc_hash::FxHashMap;

/// The number of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Value(u32);

/// How an operation uses an operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Use {
    pub(crate) access: Access,
    /// The value that it reads, if it reads one.
    pub(crate) reads: Option<Value>,
    /// The layout in which it reads or writes the elements.
    pub(crate) spec: TensorSpec,
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// The first content of an external.
    External(String),
    /// The first content of a storage that is allocated: no value.
    Undefined,
    /// An operation, by its name with all arguments.
    Operation {
        /// The op and its arguments, or another kind of instruction with its ids.
        name: String,
        /// The operands, in order.
        uses: Vec<Use>,
    },
    /// What an operation writes to one of its operands.
    Result(Value, usize),
    /// The content of a storage of which a tensor of this description, with this value, covers all.
    Stored(Value, TensorSpec),
    /// The content of a storage of which a tensor with this value covers a part.
    Overlay {
        /// The content before.
        content: Value,
        /// The new part.
        part: Value,
        /// Where it lies.
        spec: TensorSpec,
    },
    /// A tensor's elements in a content.
    Part(Value, TensorSpec),
}

/// One of the two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
}

/// All values of both lists.
#[derive(Debug, Default)]
pub(crate) struct Values {
    numbers: FxHashMap<Node, Value>,
    nodes: Vec<Node>,
    /// For each value, the first instruction of each list that makes it.
    made: Vec<[Option<usize>; 2]>,
}

impl Values {
    /// Returns the number of an expression that the instruction at `index` of a list makes.
    pub(crate) fn number(&mut self, node: Node, side: Side, index: Option<usize>) -> Value {
        let value = match self.numbers.get(&node) {
            Some(&value) => value,
            None => {
                let value = Value(self.nodes.len() as u32);
                self.nodes.push(node.clone());
                self.made.push([None; 2]);
                self.numbers.insert(node, value);
                value
            }
        };
        let made = &mut self.made[value.0 as usize][side as usize];
        *made = made.or(index);
        value
    }

    pub(crate) fn node(&self, value: Value) -> &Node {
        &self.nodes[value.0 as usize]
    }

    /// Returns the values that `value` is made of.
    fn parts(&self, value: Value) -> Vec<Value> {
        match self.node(value) {
            Node::External(_) | Node::Undefined => Vec::new(),
            Node::Operation { uses, .. } => uses.iter().filter_map(|u| u.reads).collect(),
            Node::Result(of, _) | Node::Stored(of, _) | Node::Part(of, _) => vec![*of],
            Node::Overlay { content, part, .. } => vec![*content, *part],
        }
    }

    /// Returns whether two values are made alike, but for the values that they are made of.
    fn alike(&self, a: Value, b: Value) -> bool {
        match (self.node(a), self.node(b)) {
            (Node::Operation { name, uses }, Node::Operation { name: other, uses: others }) => {
                let same = |(u, o): (&Use, &Use)| {
                    u.access == o.access
                        && u.spec == o.spec
                        && u.reads.is_some() == o.reads.is_some()
                };
                name == other && uses.len() == others.len() && uses.iter().zip(others).all(same)
            }
            (Node::Result(_, k), Node::Result(_, other)) => k == other,
            (Node::Stored(_, spec), Node::Stored(_, other))
            | (Node::Part(_, spec), Node::Part(_, other))
            | (Node::Overlay { spec, .. }, Node::Overlay { spec: other, .. }) => spec == other,
            _ => false,
        }
    }

    /// Returns the instructions that make two values differ: in each list the one that makes the
    /// first part that is not made alike, or else the value that has this part.
    pub(crate) fn first_difference(
        &self,
        mut before: Value,
        mut after: Value,
    ) -> [Option<usize>; 2] {
        let mut sites = [None; 2];
        loop {
            for (site, (value, side)) in
                sites.iter_mut().zip([(before, Side::Before), (after, Side::After)])
            {
                *site = self.made[value.0 as usize][side as usize].or(*site);
            }
            let (left, right) = (self.parts(before), self.parts(after));
            let differ = left.into_iter().zip(right).find(|(x, y)| x != y);
            match differ.filter(|_| self.alike(before, after)) {
                Some((x, y)) => (before, after) = (x, y),
                None => return sites,
            }
        }
    }
}
