//! The shardings of a whole program: those of its inputs that are left open, and the division of
//! each call, such that the ranks exchange little and work little in all.
//!
//! # Costs
//! A program costs [`PER_BYTE`] for each byte that a rank receives, and one for each byte of the
//! parts that a call reads and writes on a rank: a link between ranks is slower than memory, and
//! whole tensors on all ranks would exchange nothing and do all work several times. A view works on
//! nothing.
//!
//! # Search
//! 1. Each call in order takes the division that is the cheapest by what its operands are held as.
//! 2. Chains of calls, each a consumer of the one before, take the divisions that are the cheapest
//!    together while all others stay, by dynamic programming; along the first consumers and along
//!    the last ones in turns, until nothing changes. So what a program requests of its results
//!    spreads backward as what its inputs have spreads forward. An input that is open always
//!    follows its uses.
//!
//! The result is a function of the program alone; ties go to the first division of an op's rule.
//!
//! Source: the passes of sharding in J. Yuan et al., "OneFlow", 2021, section 3.2, choose call by
//! call; the chains are Viterbi's.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use millstream_types::{Attrs, DType, Dims, Error, Mesh, NdSbp, Result, Sbp, Sharding, TensorSpec};

use crate::schema::{CallSpec, Op, OutputSpec};

use super::choice::{Divisions, Pinned};
use super::path;

/// What a byte that a rank receives costs, in bytes of memory that it reads or writes.
pub const PER_BYTE: u64 = 8;

/// How the ranks along each axis shall hold a tensor; `None` where it is open.
pub type Entries = SmallVec<[Option<Sbp>; 3]>;

/// A program of calls on global tensors of one mesh.
#[derive(Clone)]
pub struct Program<'a> {
    /// The mesh.
    pub mesh: &'a Mesh,
    /// The tensors.
    pub values: Vec<Value>,
    /// The calls, in order.
    pub calls: Vec<Call<'a>>,
    /// What the program requests of tensors, by their numbers.
    pub requests: Vec<(usize, Entries)>,
}

/// A tensor of a program.
#[derive(Clone, Debug)]
pub struct Value {
    /// The spec of the whole.
    pub spec: TensorSpec,
    /// What is known of its sharding.
    pub source: Source,
}

/// Where the sharding of a tensor comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// An input, which may be held in any way that has these entries.
    Input(Entries),
    /// It is held so.
    Held(Sharding),
    /// The call that makes it.
    Call,
}

/// A call of a program.
#[derive(Clone)]
pub struct Call<'a> {
    /// The op.
    pub op: &'a dyn Op,
    /// Its arguments.
    pub attrs: &'a Attrs,
    /// The numbers of its operands.
    pub operands: Vec<usize>,
    /// The numbers of its results; an operand's, where it is changed in place.
    pub results: Vec<usize>,
}

/// The shardings of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Shardings {
    /// Of each tensor.
    pub values: Vec<Sharding>,
    /// The division of each call.
    pub calls: Vec<Pinned>,
    /// How each requested tensor is held afterwards.
    pub requests: Vec<Sharding>,
    /// The bytes that the ranks receive.
    pub received: u64,
}

/// A cost that nothing has.
const NEVER: u64 = 1 << 60;

/// The most rounds of the search; one that changes nothing ends it before.
const ROUNDS: usize = 8;

impl Program<'_> {
    /// Chooses the shardings.
    ///
    /// # Errors
    /// An op refuses its operands or arguments; a tensor cannot be held as it shall be; a call
    /// changes a tensor in place that is held in a way that the op cannot write.
    pub fn shardings(&self) -> Result<Shardings> {
        let mut search = Search::of(self)?;
        search.run();
        search.result()
    }
}

/// An input or a call, and the divisions that it may take.
struct Node {
    /// What the node makes of operands and results, by the numbers of their shardings.
    options: Vec<Taking>,
    operands: Vec<usize>,
    /// The operands that the node writes.
    written: Vec<bool>,
    /// The values whose shardings the node determines, with the numbers of its results.
    made: Vec<(usize, usize)>,
    /// The option that is taken.
    taken: usize,
}

/// One division of a node: its shardings by their numbers.
struct Taking {
    operands: Vec<u32>,
    results: Vec<u32>,
    work: u64,
}

/// The shardings of tensors of one dtype and shape, by number, and the costs between them.
struct Class {
    dtype: DType,
    shape: Dims,
    shardings: Vec<Sharding>,
    numbers: FxHashMap<NdSbp, u32>,
    /// By the sharding before: the elements received on the way to others.
    received: FxHashMap<u32, FxHashMap<NdSbp, u64>>,
}

impl Class {
    fn number(&mut self, sharding: &Sharding) -> u32 {
        if let Some(known) = self.numbers.get(sharding.sbp()) {
            return *known;
        }
        let number = self.shardings.len() as u32;
        self.numbers.insert(sharding.sbp().into(), number);
        self.shardings.push(sharding.clone());
        number
    }

    /// Returns about the bytes that the ranks receive.
    fn received(&mut self, from: u32, to: u32) -> u64 {
        if from == to {
            return 0;
        }
        let Class { dtype, shape, shardings, received, .. } = self;
        let [own, target] = [from, to].map(|number| &shardings[number as usize]);
        let of_own = received.entry(from).or_insert_with(|| path::received(*dtype, shape, own));
        let found = match of_own.get(target.sbp()) {
            Some(elements) => Some(*elements),
            None => path::path(*dtype, shape, own, target).map(|path| path.received),
        };
        found.map_or(NEVER, |elements| elements * dtype.size() as u64)
    }

    /// Returns the bytes that the ranks receive on the path that the calls take.
    fn path_bytes(&self, from: u32, to: u32) -> u64 {
        let [from, to] = [from, to].map(|number| &self.shardings[number as usize]);
        let path = path::path(self.dtype, &self.shape, from, to);
        path.map_or(0, |path| path.received * self.dtype.size() as u64)
    }

    /// Returns the bytes of all ranks' parts.
    fn bytes(&self, number: u32) -> u64 {
        let sharding = &self.shardings[number as usize];
        let axes = sharding.sbp().iter().zip(sharding.mesh().shape());
        let copies = axes.filter(|(sbp, _)| sbp.dim().is_none()).map(|(_, ranks)| *ranks as u64);
        let elements: u64 = self.shape.iter().map(|length| *length as u64).product();
        elements.saturating_mul(self.dtype.size() as u64).saturating_mul(copies.product())
    }
}

/// A use of a value by a call, or a request.
#[derive(Clone, Copy)]
enum Use {
    /// The node and the number of its operand.
    Operand(usize, usize),
    Request(usize),
}

struct Search<'a> {
    program: &'a Program<'a>,
    classes: Vec<Class>,
    /// The class of each value.
    class: Vec<usize>,
    /// The node that determines a value's sharding, and the number of its result.
    maker: Vec<(usize, usize)>,
    uses: Vec<Vec<Use>>,
    /// The inputs, and then the calls.
    nodes: Vec<Node>,
    /// The node of each call.
    calls: Vec<usize>,
    /// What open inputs cost with the uses of one node, by what that takes of them.
    following: FxHashMap<(usize, Numbers), u64>,
}

/// Shardings of several tensors, by number.
type Numbers = SmallVec<[u32; 2]>;

impl<'a> Search<'a> {
    fn of(program: &'a Program<'a>) -> Result<Search<'a>> {
        let mut search = Search {
            program,
            classes: Vec::new(),
            class: Vec::new(),
            maker: vec![(0, 0); program.values.len()],
            uses: vec![Vec::new(); program.values.len()],
            nodes: Vec::new(),
            calls: Vec::new(),
            following: FxHashMap::default(),
        };
        for value in &program.values {
            let class = (value.spec.dtype, Dims::from_slice(value.spec.shape()));
            let of = |known: &Class| (known.dtype, &known.shape) == (class.0, &class.1);
            let known = search.classes.iter().position(of);
            search.class.push(known.unwrap_or(search.classes.len()));
            if known.is_none() {
                let (dtype, shape) = class;
                let (shardings, numbers, received) = Default::default();
                search.classes.push(Class { dtype, shape, shardings, numbers, received });
            }
        }
        for value in 0..program.values.len() {
            search.input(value)?;
        }
        let viewed = search.viewed_and_written();
        for call in 0..program.calls.len() {
            search.call(call, &viewed)?;
        }
        let is_made = |call: &Call<'_>, value: usize| call.results.contains(&value);
        for (value, Value { spec, source }) in program.values.iter().enumerate() {
            if matches!(source, Source::Call) && !program.calls.iter().any(|c| is_made(c, value)) {
                let message = format!("no call makes tensor {value}, {}", spec.brief());
                return Err(Error::Internal { message });
            }
        }
        for (number, (value, _)) in program.requests.iter().enumerate() {
            search.uses[*value].push(Use::Request(number));
        }
        Ok(search)
    }

    /// Adds the node of a value that no call makes.
    fn input(&mut self, value: usize) -> Result<()> {
        let Value { spec, source } = &self.program.values[value];
        let shardings = match source {
            Source::Call => return Ok(()),
            Source::Held(sharding) => vec![sharding.clone()],
            Source::Input(entries) => self.with_entries(spec, entries)?,
        };
        let class = &mut self.classes[self.class[value]];
        let options = shardings.iter().map(|sharding| {
            let number = class.number(sharding);
            // Where a part does as well as the whole, a rank holds a part.
            let work = class.bytes(number);
            Taking { operands: Vec::new(), results: vec![number], work }
        });
        let options = options.collect();
        self.maker[value] = (self.nodes.len(), 0);
        let (operands, written, made) = (Vec::new(), Vec::new(), vec![(value, 0)]);
        self.nodes.push(Node { options, operands, written, made, taken: 0 });
        Ok(())
    }

    /// Returns all shardings of a tensor with these entries: whole or split along open axes.
    fn with_entries(&self, spec: &TensorSpec, entries: &Entries) -> Result<Vec<Sharding>> {
        let mesh = self.program.mesh;
        let invalid = |message: String| Error::Invalid { what: "sharding", message };
        if entries.len() != mesh.rank() {
            return Err(invalid(format!(
                "mesh {mesh} has {} axes, and an input names {}",
                mesh.rank(),
                entries.len()
            )));
        }
        let mut all: Vec<NdSbp> = vec![NdSbp::new()];
        for entry in entries {
            let open =
                || [Sbp::Broadcast].into_iter().chain((0..spec.shape().len()).map(Sbp::Split));
            let choices: SmallVec<[Sbp; 8]> = match entry {
                Some(sbp) => [*sbp].into_iter().collect(),
                None => open().collect(),
            };
            let longer = |sbp: &NdSbp| {
                let more = |choice: &Sbp| sbp.iter().copied().chain([*choice]).collect();
                choices.iter().map(more).collect::<Vec<NdSbp>>()
            };
            all = all.iter().flat_map(longer).collect();
        }
        let mut refused = None;
        let held = all.into_iter().filter_map(|sbp| {
            let sharding = Sharding::new(mesh, sbp);
            let checked =
                sharding.and_then(|held| held.check(spec.dtype, spec.shape()).map(|()| held));
            checked.map_err(|error| refused.get_or_insert(error).clone()).ok()
        });
        let held: Vec<Sharding> = held.collect();
        match (held.is_empty(), refused) {
            (true, Some(error)) => Err(error),
            _ => Ok(held),
        }
    }

    /// Returns whether each value shares memory with one that a call writes, on one rank. The base
    /// of a view is redistributed for no such one, as a copy would miss the change.
    fn viewed_and_written(&self) -> Vec<bool> {
        let program = self.program;
        let mut memory: Vec<usize> = (0..program.values.len()).collect();
        let mut written = Vec::new();
        for call in &program.calls {
            let specs: Vec<TensorSpec> =
                call.operands.iter().map(|k| program.values[*k].spec.clone()).collect();
            let Ok(signature) = call.op.check(CallSpec { inputs: &specs, attrs: call.attrs })
            else {
                continue;
            };
            for (output, result) in signature.outputs.iter().zip(&call.results) {
                if let OutputSpec::View { of, .. } = output {
                    memory[*result] = memory[call.operands[*of]];
                }
            }
            let accesses = call.operands.iter().zip(&signature.accesses);
            written.extend(accesses.filter(|(_, access)| access.writes()).map(|(k, _)| memory[*k]));
        }
        memory.iter().map(|memory| written.contains(memory)).collect()
    }

    fn call(&mut self, number: usize, viewed_and_written: &[bool]) -> Result<()> {
        let program = self.program;
        let call = &program.calls[number];
        let specs: Vec<TensorSpec> =
            call.operands.iter().map(|k| program.values[*k].spec.clone()).collect();
        let spec = CallSpec { inputs: &specs, attrs: call.attrs };
        let signature = call.op.check(spec)?;
        let divisions = Divisions::of(call.op, spec, &signature, program.mesh);
        let mut written = divisions.written.clone();
        let is_view = |output: &OutputSpec| matches!(output, OutputSpec::View { .. });
        for output in &signature.outputs {
            if let OutputSpec::View { of, .. } = output {
                written[*of] |= viewed_and_written[call.operands[*of]];
            }
        }
        let works = !signature.outputs.iter().all(is_view);
        let mut options: Vec<Taking> = Vec::new();
        for division in divisions.all() {
            let mut work = 0u64;
            let mut numbers = |values: &[usize], shardings: &[Sharding]| -> Vec<u32> {
                let all = values.iter().zip(shardings).map(|(value, sharding)| {
                    let class = &mut self.classes[self.class[*value]];
                    let number = class.number(sharding);
                    work = work.saturating_add(class.bytes(number));
                    number
                });
                all.collect()
            };
            let operands = numbers(&call.operands, &division.pinned.operands);
            let results = numbers(&call.results, &division.pinned.results);
            let is_known = |o: &Taking| o.operands == operands && o.results == results;
            if !options.iter().any(is_known) {
                let work = if works { work } else { 0 };
                options.push(Taking { operands, results, work });
            }
        }
        let node = self.nodes.len();
        for (k, value) in call.operands.iter().enumerate() {
            self.uses[*value].push(Use::Operand(node, k));
        }
        let made = call.results.iter().enumerate();
        let made = made.filter(|(_, value)| !call.operands.contains(value));
        let made: Vec<(usize, usize)> = made.map(|(k, value)| (*value, k)).collect();
        for (value, k) in &made {
            self.maker[*value] = (node, *k);
        }
        self.nodes.push(Node { options, operands: call.operands.clone(), written, made, taken: 0 });
        self.calls.push(node);
        Ok(())
    }

    /// Returns how a value is held by the options that are taken.
    fn held(&self, value: usize) -> u32 {
        let (node, result) = self.maker[value];
        let node = &self.nodes[node];
        node.options[node.taken].results[result]
    }

    /// Returns the cost of taking a value that is held so as an operand.
    fn taking(&mut self, node: usize, k: usize, option: usize, held: u32) -> u64 {
        let Node { options, operands, written, .. } = &self.nodes[node];
        let (value, target) = (operands[k], options[option].operands[k]);
        if written[k] && held != target {
            return NEVER;
        }
        self.classes[self.class[value]].received(held, target).saturating_mul(PER_BYTE)
    }

    /// Returns how a requested value is held afterwards, and the bytes received for it.
    fn requested(&mut self, request: usize, held: u32) -> (u32, u64) {
        let (value, entries) = &self.program.requests[request];
        let class = &mut self.classes[self.class[*value]];
        let own = class.shardings[held as usize].clone();
        let sbp = entries.iter().zip(own.sbp()).map(|(entry, own)| entry.unwrap_or(*own));
        let target = Sharding::new(self.program.mesh, sbp);
        let is_legal = |s: &Sharding| s.check(class.dtype, &class.shape).is_ok();
        match target.ok().filter(is_legal) {
            None => (held, NEVER),
            Some(target) => {
                let target = class.number(&target);
                (target, class.received(held, target))
            }
        }
    }

    /// Returns the cost of an option of a node beside the ones that its neighbours have taken. The
    /// neighbours in `but` are left out.
    fn beside(&mut self, node: usize, option: usize, but: [Option<usize>; 2]) -> u64 {
        let is_left_out = |other: usize| but.contains(&Some(other));
        let mut cost = self.nodes[node].options[option].work;
        for k in 0..self.nodes[node].operands.len() {
            let value = self.nodes[node].operands[k];
            let maker = self.maker[value].0;
            if self.follows(maker) {
                let operands = self.nodes[node].operands.iter();
                let own = operands.zip(&self.nodes[node].options[option].operands);
                let own = own.filter(|(of, _)| **of == value).map(|(_, number)| *number);
                let key = (value, own.collect::<Numbers>());
                let known = self.following.get(&key).copied();
                let of_input =
                    known.unwrap_or_else(|| self.following_of(value, Some((node, option))).1);
                self.following.insert(key, of_input);
                cost = cost.saturating_add(of_input);
            } else if !is_left_out(maker) {
                let held = self.held(value);
                cost = cost.saturating_add(self.taking(node, k, option, held));
            }
        }
        for at in 0..self.nodes[node].made.len() {
            let (value, result) = self.nodes[node].made[at];
            let held = self.nodes[node].options[option].results[result];
            for used in 0..self.uses[value].len() {
                cost = cost.saturating_add(match self.uses[value][used] {
                    Use::Operand(other, _) if is_left_out(other) => 0,
                    Use::Operand(other, k) => {
                        let taken = self.nodes[other].taken;
                        self.taking(other, k, taken, held)
                    }
                    Use::Request(request) => {
                        self.requested(request, held).1.saturating_mul(PER_BYTE)
                    }
                });
            }
        }
        cost
    }

    /// Returns for each option of a node the cheapest option of the one before it in a chain, with
    /// the cost of both up to there. `costs` are those of the options before. Options that hand
    /// over alike are looked at together.
    fn ways(&mut self, last: usize, costs: &[u64], node: usize) -> Vec<(u64, usize)> {
        let links = self.nodes[node].operands.iter().enumerate();
        let links = links.map(|(k, value)| (k, self.maker[*value]));
        let links = links.filter(|(_, (maker, _))| *maker == last);
        let links: SmallVec<[(usize, usize); 2]> = links.map(|(k, (_, made))| (k, made)).collect();
        let mut handed: Vec<(Numbers, u64, usize)> = Vec::new();
        let mut known: FxHashMap<Numbers, usize> = FxHashMap::default();
        for (option, cost) in costs.iter().enumerate() {
            let results = &self.nodes[last].options[option].results;
            let numbers: Numbers = links.iter().map(|(_, made)| results[*made]).collect();
            let at = *known.entry(numbers.clone()).or_insert(handed.len());
            match handed.get_mut(at) {
                None => handed.push((numbers, *cost, option)),
                Some(best) if *cost < best.1 => (best.1, best.2) = (*cost, option),
                Some(_) => {}
            }
        }
        let mut taken: FxHashMap<Numbers, (u64, usize)> = FxHashMap::default();
        let mut ways = Vec::with_capacity(self.nodes[node].options.len());
        for option in 0..self.nodes[node].options.len() {
            let operands = &self.nodes[node].options[option].operands;
            let numbers: Numbers = links.iter().map(|(k, _)| operands[*k]).collect();
            if let Some(way) = taken.get(&numbers) {
                ways.push(*way);
                continue;
            }
            let mut best = (u64::MAX, 0);
            for (held, cost, of_last) in &handed {
                let of_links = links.iter().zip(held).fold(*cost, |cost, ((k, _), held)| {
                    cost.saturating_add(self.taking(node, *k, option, *held))
                });
                if of_links < best.0 {
                    best = (of_links, *of_last);
                }
            }
            taken.insert(numbers, best);
            ways.push(best);
        }
        ways
    }

    fn run(&mut self) {
        self.forward();
        for round in 0..ROUNDS {
            let mut is_changed = false;
            for chain in self.chains(round % 2 == 0) {
                is_changed |= self.improve(&chain);
            }
            if !is_changed && round > 0 {
                break;
            }
        }
    }

    /// Has each node take what is the cheapest by its operands.
    fn forward(&mut self) {
        for node in 0..self.nodes.len() {
            // Nodes behind this one have taken nothing yet.
            let cost = |search: &mut Search<'_>, option: usize| {
                let mut cost = search.nodes[node].options[option].work;
                for k in 0..search.nodes[node].operands.len() {
                    let value = search.nodes[node].operands[k];
                    let maker = search.maker[value].0;
                    let ways = match search.follows(maker) {
                        true => 0..search.nodes[maker].options.len(),
                        false => search.nodes[maker].taken..search.nodes[maker].taken + 1,
                    };
                    let of_way = |way: usize| {
                        let Taking { results, work, .. } = &search.nodes[maker].options[way];
                        let own = if search.follows(maker) { *work } else { 0 };
                        let held = results[search.maker[value].1];
                        search.taking(node, k, option, held).saturating_add(own)
                    };
                    cost = cost.saturating_add(ways.map(of_way).min().unwrap_or(NEVER));
                }
                cost
            };
            let options = 0..self.nodes[node].options.len();
            let costs: Vec<u64> = options.map(|option| cost(self, option)).collect();
            self.nodes[node].taken = least(&costs);
        }
        self.follow();
    }

    /// Returns whether a node is an input that is open.
    fn follows(&self, node: usize) -> bool {
        self.nodes[node].operands.is_empty() && self.nodes[node].options.len() > 1
    }

    /// Returns the option of an open input that suits its uses best, and its cost with them, if a
    /// node takes another option than it has.
    fn following_of(&mut self, value: usize, other: Option<(usize, usize)>) -> (usize, u64) {
        let node = self.maker[value].0;
        let mut costs = Vec::with_capacity(self.nodes[node].options.len());
        for option in 0..self.nodes[node].options.len() {
            let Taking { results, work, .. } = &self.nodes[node].options[option];
            let (held, mut cost) = (results[0], *work);
            for used in 0..self.uses[value].len() {
                cost = cost.saturating_add(match self.uses[value][used] {
                    Use::Operand(user, k) => {
                        let taken = match other {
                            Some((node, option)) if node == user => option,
                            _ => self.nodes[user].taken,
                        };
                        self.taking(user, k, taken, held)
                    }
                    Use::Request(request) => {
                        self.requested(request, held).1.saturating_mul(PER_BYTE)
                    }
                });
            }
            costs.push(cost);
        }
        let best = least(&costs);
        (best, costs[best])
    }

    /// Has all open inputs take what suits their uses best.
    fn follow(&mut self) {
        for value in 0..self.program.values.len() {
            if self.maker[value].1 == 0 && self.follows(self.maker[value].0) {
                let node = self.maker[value].0;
                self.nodes[node].taken = self.following_of(value, None).0;
            }
        }
    }

    /// Returns chains of nodes that together have each node once. Each node is followed by the
    /// first node that uses its results and follows no other, or by the last one.
    fn chains(&self, first: bool) -> Vec<Vec<usize>> {
        let mut is_next = vec![false; self.nodes.len()];
        let mut next: Vec<Option<usize>> = vec![None; self.nodes.len()];
        for (node, next) in next.iter_mut().enumerate() {
            if self.follows(node) {
                continue;
            }
            let uses = self.nodes[node].made.iter().flat_map(|(value, _)| &self.uses[*value]);
            let users = uses.filter_map(|used| match used {
                Use::Operand(user, _) => Some(*user),
                Use::Request(_) => None,
            });
            let free = users.filter(|user| *user > node && !is_next[*user]);
            *next = if first { free.min() } else { free.max() };
            if let Some(next) = *next {
                is_next[next] = true;
            }
        }
        let starts = (0..self.nodes.len()).filter(|node| !is_next[*node] && !self.follows(*node));
        starts
            .map(|start| std::iter::successors(Some(start), |node| next[*node]).collect())
            .collect()
    }

    /// Has the nodes of a chain take what is the cheapest together, where that is cheaper than what
    /// they have.
    fn improve(&mut self, chain: &[usize]) -> bool {
        // By option of the last node: the least cost of the chain up to it, and the options before.
        let mut costs: Vec<u64> = Vec::new();
        let mut before: Vec<Vec<usize>> = Vec::new();
        for (at, node) in chain.iter().copied().enumerate() {
            let (last, next) = (at.checked_sub(1).map(|at| chain[at]), chain.get(at + 1).copied());
            self.following.clear();
            let own: Vec<u64> = (0..self.nodes[node].options.len())
                .map(|option| self.beside(node, option, [last, next]))
                .collect();
            let Some(last) = last else {
                costs = own;
                continue;
            };
            let ways = self.ways(last, &costs, node);
            costs = own.iter().zip(&ways).map(|(own, (way, _))| own.saturating_add(*way)).collect();
            before.push(ways.into_iter().map(|(_, option)| option).collect());
        }
        let now = self.total();
        let was: Vec<usize> = chain.iter().map(|node| self.nodes[*node].taken).collect();
        let mut option = least(&costs);
        for (at, node) in chain.iter().enumerate().rev() {
            self.nodes[*node].taken = option;
            if let Some(at) = at.checked_sub(1) {
                option = before[at][option];
            }
        }
        self.follow();
        // Nodes of a chain may also be neighbours over others, or share an input.
        if self.total() < now {
            return true;
        }
        for (node, was) in chain.iter().zip(was) {
            self.nodes[*node].taken = was;
        }
        self.follow();
        false
    }

    /// Returns the cost of all options that are taken.
    fn total(&mut self) -> u64 {
        let mut cost = 0u64;
        for node in 0..self.nodes.len() {
            let option = self.nodes[node].taken;
            cost = cost.saturating_add(self.nodes[node].options[option].work);
            for k in 0..self.nodes[node].operands.len() {
                let held = self.held(self.nodes[node].operands[k]);
                cost = cost.saturating_add(self.taking(node, k, option, held));
            }
        }
        for request in 0..self.program.requests.len() {
            let held = self.held(self.program.requests[request].0);
            let received = self.requested(request, held).1;
            cost = cost.saturating_add(received.saturating_mul(PER_BYTE));
        }
        cost
    }

    fn result(mut self) -> Result<Shardings> {
        let program = self.program;
        let mut received = 0u64;
        for call in 0..self.calls.len() {
            let node = self.calls[call];
            let option = self.nodes[node].taken;
            for k in 0..self.nodes[node].operands.len() {
                let value = self.nodes[node].operands[k];
                let held = self.held(value);
                let cost = self.taking(node, k, option, held);
                if cost >= NEVER {
                    let held = &self.classes[self.class[value]].shardings[held as usize];
                    let message = format!(
                        "it cannot take operand {k}, {}, held as {held}, in a way that the op has; \
                         redistribute it to B first, or call the op that returns a new tensor",
                        program.values[value].spec.brief()
                    );
                    return Err(Error::Op {
                        op: program.calls[call].op.name().to_owned(),
                        message,
                    });
                }
                let target = self.nodes[node].options[option].operands[k];
                received += self.classes[self.class[value]].path_bytes(held, target);
            }
        }
        let mut requests = Vec::new();
        for (request, (value, _)) in program.requests.iter().enumerate() {
            let held = self.held(*value);
            let (target, cost) = self.requested(request, held);
            let class = &self.classes[self.class[*value]];
            if cost >= NEVER {
                let message = format!(
                    "{} held as {} cannot become what the program requests",
                    program.values[*value].spec.brief(),
                    class.shardings[held as usize]
                );
                return Err(Error::Invalid { what: "sharding", message });
            }
            received += class.path_bytes(held, target);
            requests.push(class.shardings[target as usize].clone());
        }
        let sharding = |value: usize, number: u32| {
            self.classes[self.class[value]].shardings[number as usize].clone()
        };
        let values = (0..program.values.len()).map(|value| sharding(value, self.held(value)));
        let calls = program.calls.iter().zip(&self.calls).map(|(call, node)| {
            let node = &self.nodes[*node];
            let taken = &node.options[node.taken];
            let all = |values: &[usize], numbers: &[u32]| {
                values
                    .iter()
                    .zip(numbers)
                    .map(|(value, number)| sharding(*value, *number))
                    .collect()
            };
            Pinned {
                operands: all(&call.operands, &taken.operands),
                results: all(&call.results, &taken.results),
            }
        });
        Ok(Shardings { values: values.collect(), calls: calls.collect(), requests, received })
    }
}

/// Returns the place of the first least cost.
fn least(costs: &[u64]) -> usize {
    let order = |(_, a): &(usize, &u64), (_, b): &(usize, &u64)| a.cmp(b);
    costs.iter().enumerate().min_by(order).map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use millstream_types::sbp::{B, OPEN, S};

    use super::*;
    use crate::{OpRegistry, standard};

    /// A program under construction.
    struct Draft {
        ops: OpRegistry,
        mesh: Mesh,
        values: Vec<Value>,
        calls: Vec<(&'static str, Attrs, Vec<usize>, Vec<usize>)>,
        requests: Vec<(usize, Entries)>,
    }

    impl Draft {
        fn new(mesh: Mesh) -> Draft {
            let (values, calls, requests) = Default::default();
            Draft { ops: standard(), mesh, values, calls, requests }
        }

        fn value(&mut self, shape: &[usize], source: Source) -> usize {
            let spec = TensorSpec::contiguous(DType::F32, shape).unwrap();
            self.values.push(Value { spec, source });
            self.values.len() - 1
        }

        fn open(&mut self, shape: &[usize]) -> usize {
            let entries = self.mesh.shape().iter().map(|_| OPEN).collect();
            self.value(shape, Source::Input(entries))
        }

        fn held(&mut self, shape: &[usize], sbp: &[Sbp]) -> usize {
            let sharding = Sharding::new(&self.mesh, sbp.iter().copied()).unwrap();
            self.value(shape, Source::Held(sharding))
        }

        fn call(&mut self, op: &'static str, operands: &[usize]) -> usize {
            let specs: Vec<TensorSpec> =
                operands.iter().map(|k| self.values[*k].spec.clone()).collect();
            let (known, attrs) = (self.ops.get(self.ops.id(op).unwrap()).unwrap(), Attrs::new());
            let signature = known.check(CallSpec { inputs: &specs, attrs: &attrs }).unwrap();
            let result = match &signature.outputs[0] {
                OutputSpec::Fresh(spec) => {
                    let shape = spec.shape().to_vec();
                    self.value(&shape, Source::Call)
                }
                OutputSpec::Same(of) => operands[*of],
                other => panic!("{other:?}"),
            };
            self.calls.push((op, attrs, operands.to_vec(), vec![result]));
            result
        }

        fn with<T>(&self, work: impl FnOnce(&Program<'_>) -> T) -> T {
            let calls = self.calls.iter().map(|(op, attrs, operands, results)| Call {
                op: &**self.ops.get(self.ops.id(op).unwrap()).unwrap(),
                attrs,
                operands: operands.clone(),
                results: results.clone(),
            });
            work(&Program {
                mesh: &self.mesh,
                values: self.values.clone(),
                calls: calls.collect(),
                requests: self.requests.clone(),
            })
        }

        /// Returns the cost that is found, and the least of all combinations of divisions.
        fn costs(&self) -> (u64, u64) {
            self.with(|program| {
                let mut search = Search::of(program).unwrap();
                let mut least = u64::MAX;
                let counts: Vec<usize> = search.nodes.iter().map(|n| n.options.len()).collect();
                let all: usize = counts.iter().product();
                assert!(all < 3_000_000, "{counts:?}");
                for mut number in 0..all {
                    for (node, count) in counts.iter().enumerate() {
                        search.nodes[node].taken = number % count;
                        number /= count;
                    }
                    least = least.min(search.total());
                }
                let mut search = Search::of(program).unwrap();
                search.run();
                (search.total(), least)
            })
        }
    }

    /// Chains are divided in the best way that there is.
    #[test]
    fn chains_are_at_the_optimum() {
        for mesh in [Mesh::new([0, 1]).unwrap(), Mesh::new([0, 1, 2]).unwrap()] {
            for (first, last) in [(S(0), S(0)), (S(0), B), (B, S(1)), (S(1), S(0)), (B, B)] {
                let mut draft = Draft::new(mesh.clone());
                let x = draft.held(&[6, 12], &[first]);
                let w = draft.open(&[12, 9]);
                let y = draft.call("matmul", &[x, w]);
                let y = draft.call("relu", &[y]);
                let v = draft.open(&[9, 6]);
                let y = draft.call("matmul", &[y, v]);
                let y = draft.call("neg", &[y]);
                draft.requests.push((y, [Some(last)].into_iter().collect()));
                let (found, least) = draft.costs();
                assert_eq!(found, least, "{mesh}: {first} to {last}");
            }
        }
    }

    /// A tensor that two branches use: what is found is near the optimum.
    #[test]
    fn branches_are_near_the_optimum() {
        let mesh = Mesh::new([[0, 1], [2, 3]]).unwrap();
        for (first, last) in [([S(0), B], [S(0), B]), ([B, B], [B, B]), ([S(1), S(0)], [B, S(1)])] {
            let mut draft = Draft::new(mesh.clone());
            let x = draft.held(&[8, 4], &first);
            let w = draft.held(&[4, 4], &[B, B]);
            let y = draft.call("matmul", &[x, w]);
            let z = draft.call("relu", &[x]);
            let sum = draft.call("add", &[y, z]);
            draft.requests.push((sum, last.into_iter().map(Some).collect()));
            let (found, least) = draft.costs();
            assert!(found * 10 <= least * 11, "{found} and {least}");
        }
    }

    /// What is requested of a result spreads to inputs that are open, over calls that move nothing.
    #[test]
    fn requests_spread_backward() {
        let mesh = Mesh::new([0, 1, 2, 3]).unwrap();
        let mut draft = Draft::new(mesh);
        let x = draft.open(&[8, 8]);
        let y = draft.call("relu", &[x]);
        let bias = draft.open(&[8]);
        let y = draft.call("add", &[y, bias]);
        draft.requests.push((y, [Some(S(1))].into_iter().collect()));
        let found = draft.with(|program| program.shardings()).unwrap();
        let held = |value: usize| found.values[value].sbp().to_vec();
        assert_eq!((held(x), held(bias), found.received), (vec![S(1)], vec![S(0)], 0));
    }
}
