//! Which ranks a recorded collective is between, and its reduction.
//!
//! The node of a collective holds neither. They are found, in this order:
//!
//! 1. in `meta.json`: `"collectives": {"NODE": {"group": "1", "op": "max"}}`;
//! 2. at the caller, `_c10d_functional::…`, as `group_name` and `reduce_op`;
//! 3. the group alone at a node `record_param_comms` below: an attribute `pg_name`, a tuple of name
//!    and description, or, before groups had names, the number `pg_id`;
//! 4. the group alone by the label `## process_group:init ##`, which lists the rank's groups: if it
//!    lists one, or one of as many ranks as the operands show.
//!
//! Source: PyTorch's `ExecutionTraceObserver` and `ParamCommsUtils`,
//! <https://github.com/pytorch/pytorch/tree/main/torch/csrc>.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::Value;

use crate::et::import::{Lowered, Refusal, unsupported};
use crate::et::raw_form::NodeForm;
use crate::et::signature::Signature;
use crate::et::tree::Tree;
use crate::et::value::{self, Arg};

/// The label whose argument lists the rank's process groups.
const LISTED: &str = "## process_group:init ##";

/// The label that NCCL's process group writes below a collective.
const COMMS: &str = "record_param_comms";

/// The namespace of the ops that call a collective and name its group.
pub(crate) const FUNCTIONAL: &str = "_c10d_functional::";

/// A process group that the trace lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    name: String,
    /// The address of the group in the process, before groups had names.
    id: Option<i64>,
    /// The ranks, ascending; none for all ranks of the program.
    pub(crate) ranks: Option<Vec<i64>>,
    size: Option<usize>,
    /// The number among the groups of the same ranks.
    pub(crate) index: i64,
}

impl Group {
    /// Returns the rank of the program at a position of the group.
    pub(crate) fn rank(&self, position: i64) -> Lowered<i64> {
        let Some(ranks) = &self.ranks else { return Ok(position) };
        let rank = usize::try_from(position).ok().and_then(|at| ranks.get(at));
        rank.copied().ok_or_else(|| {
            Refusal::Wrong(format!("position {position} in a group of {} ranks", ranks.len()))
        })
    }
}

/// What is recorded of a collective beside its node.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Noted {
    /// The name of the group, or its address in digits.
    pub(crate) group: Option<String>,
    /// The reduction, by PyTorch's name.
    #[serde(rename = "op")]
    pub(crate) reduction: Option<String>,
}

/// The process groups of a trace, and the collectives of which something is recorded.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    listed: Vec<Group>,
    noted: HashMap<u64, Noted>,
}

impl Groups {
    /// Reads the groups of a trace. What is malformed is left out, and the collective that needs it
    /// refused.
    pub(crate) fn read(tree: &Tree<'_>) -> Groups {
        let Tree { nodes, schemas, parents, .. } = tree;
        let mut groups = Groups::default();
        let is_listed = |node: &&NodeForm<'_>| node.name.as_deref() == Some(LISTED);
        nodes.iter().filter(is_listed).for_each(|node| groups.list(node));
        let mut functional: HashMap<usize, Noted> = HashMap::new();
        for (k, schema) in schemas.iter().enumerate() {
            if schema.starts_with(FUNCTIONAL) {
                functional.extend(named_by(&nodes[k], schema).map(|noted| (k, noted)));
            }
            if schema.starts_with("c10d::")
                && let Some(noted) = parents[k].and_then(|caller| functional.get(&caller))
                && let Some(id) = nodes[k].id
            {
                groups.noted.insert(id, noted.clone());
            }
            if nodes[k].name.as_deref() == Some(COMMS)
                && let Some(group) = groups.named_in(&nodes[k])
            {
                let mut above = parents[k];
                while let Some(at) = above
                    && !schemas[at].starts_with("c10d::")
                {
                    above = parents[at];
                }
                if let Some(id) = above.and_then(|at| nodes[at].id) {
                    groups.noted.entry(id).or_default().group.get_or_insert(group);
                }
            }
        }
        groups
    }

    /// Adds the groups that a label lists.
    fn list(&mut self, node: &NodeForm<'_>) {
        let Ok(args) = value::inputs(node) else { return };
        let Some(Arg::Str(text)) = args.first() else { return };
        let Ok(Value::Array(list)) = serde_json::from_str(text) else { return };
        for form in list {
            // The name is a string or a number; before there were names, the address.
            let id = form.get("pg_id").and_then(Value::as_i64);
            let name = match form.get("pg_name") {
                Some(Value::String(name)) => name.clone(),
                Some(other) => other.to_string(),
                None => id.map_or_else(String::new, |id| id.to_string()),
            };
            // A list, or a table from the ranks of the program to positions.
            let ranks: BTreeSet<i64> = match form.get("ranks") {
                Some(Value::Array(ranks)) => ranks.iter().filter_map(Value::as_i64).collect(),
                Some(Value::Object(ranks)) => {
                    ranks.keys().filter_map(|rank| rank.parse().ok()).collect()
                }
                _ => BTreeSet::new(),
            };
            let ranks: Option<Vec<i64>> = (!ranks.is_empty()).then(|| ranks.into_iter().collect());
            let size = form.get("group_size").and_then(Value::as_u64).map(|size| size as usize);
            let size = size.or(ranks.as_ref().map(Vec::len));
            let index = self.listed.iter().filter(|other| other.ranks == ranks).count() as i64;
            self.listed.push(Group { name, id, ranks, size, index });
        }
    }

    /// Returns the group that a node of communication names.
    fn named_in(&self, node: &NodeForm<'_>) -> Option<String> {
        if let Some(name) = node.attr::<String>("pg_name") {
            return Some(name);
        }
        let args = value::inputs(node).ok()?;
        args.iter().find_map(|arg| match arg {
            Arg::List(pair) => match &pair[..] {
                [Arg::Str(name), Arg::Str(_)] => self.find(name).map(|group| group.name.clone()),
                _ => None,
            },
            Arg::Int(id) => {
                let found = self.listed.iter().find(|group| group.id == Some(*id));
                found.map(|group| group.name.clone())
            }
            _ => None,
        })
    }

    fn find(&self, name: &str) -> Option<&Group> {
        self.listed.iter().find(|group| group.name == name)
    }

    /// Returns what is recorded of the collective of a node.
    pub(crate) fn noted(&self, node: u64) -> Noted {
        self.noted.get(&node).cloned().unwrap_or_default()
    }

    /// Returns the group of a collective, by its recorded name if there is one, and else by the
    /// number of ranks that its operands show; none for all ranks of a program that lists no group.
    pub(crate) fn of(&self, name: Option<&str>, size: Option<usize>) -> Lowered<Option<&Group>> {
        if let Some(name) = name {
            let found = self.find(name).map(Some);
            return found.ok_or_else(|| {
                Refusal::Wrong(format!("its process group '{name}' is not among those listed"))
            });
        }
        let fits = |group: &&Group| size.is_none() || group.size == size;
        match &self.listed[..] {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            several => {
                let fitting: Vec<&Group> = several.iter().filter(fits).collect();
                match fitting[..] {
                    [one] => Ok(Some(one)),
                    _ => Err(unsupported(format!(
                        "the trace lists {} process groups, and not which of them this op uses; \
                         meta.json can name it",
                        several.len()
                    ))),
                }
            }
        }
    }
}

/// Returns the group and the reduction that an op names which calls a collective.
fn named_by(node: &NodeForm<'_>, schema: &str) -> Option<Noted> {
    let signature = Signature::parse(schema)?;
    let args = value::inputs(node).ok()?;
    let text = |name: &str| {
        let at = signature.params.iter().position(|param| param.name == name)?;
        match args.get(at)? {
            Arg::Str(text) => Some(text.clone()),
            _ => None,
        }
    };
    Some(Noted { group: text("group_name"), reduction: text("reduce_op") })
}
