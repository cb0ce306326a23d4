//! A list of instructions with its header.

use millstream_types::{
    Access, DeviceId, OpId, StreamKey, StreamMode, TensorId, TensorSpec, WorkSet,
};
use rustc_hash::FxHashMap;

use crate::ids::Remap;
use crate::instruction::Class;
use crate::planner::ArenaId;
use crate::scalar::{GeneratorDecl, ScalarDecl};
use crate::table::Instruction;
use crate::text::OpNames;

/// A stream that a list uses.
///
/// ```
/// # use millstream_instructions::*;
/// # use millstream_types::*;
/// let key = StreamKey::compute(DeviceId::cpu(0), 0);
/// let stream = StreamDecl::new(key, StreamMode::InOrder);
/// assert!(!stream.work.is_order_only());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamDecl {
    /// Which stream.
    pub key: StreamKey,
    /// In-order or a pool. The list is made for this mode.
    pub mode: StreamMode,
    /// The kinds of work that the stream accepts, as its policy says. The text form writes them
    /// down unless they are those of a built-in type.
    pub work: WorkSet,
}

impl StreamDecl {
    /// Returns the declaration of a stream of a built-in type. A stream of any other type accepts
    /// nothing until [`StreamDecl::accepting`] says more.
    ///
    /// ```
    /// # use millstream_instructions::*;
    /// # use millstream_types::*;
    /// let key = StreamKey::compute(DeviceId::cpu(0), 0);
    /// assert!(!StreamDecl::new(key, StreamMode::Pool).work.is_order_only());
    /// ```
    pub fn new(key: StreamKey, mode: StreamMode) -> StreamDecl {
        let work = key.ty.built_in_work().unwrap_or_default();
        StreamDecl { key, mode, work }
    }

    /// Returns the declaration of a stream that accepts this work.
    ///
    /// ```
    /// # use millstream_instructions::*;
    /// # use millstream_types::*;
    /// let key = StreamKey::new(DeviceId::cpu(0), StreamType::new("filter"), 0);
    /// let stream = StreamDecl::new(key, StreamMode::InOrder);
    /// let stream = stream.accepting(WorkSet::of(&[WorkKind::Compute]));
    /// assert!(!stream.work.is_order_only());
    /// ```
    #[must_use]
    pub fn accepting(self, work: WorkSet) -> StreamDecl {
        StreamDecl { work, ..self }
    }
}

/// A tensor that exists before the list and after it.
///
/// ```
/// # use millstream_instructions::*;
/// # use millstream_types::*;
/// let list = text::parse_list(
///     "millstream-list 1
///      stream s0 cpu:0 compute 0 in-order
///      arena a0 cpu:0
///      external %0 \"x\" f32[4] in 16 bytes of a0
///      OpCall s0:1 fill (%0 write)",
/// )?;
/// assert_eq!((list.externals[0].name.as_str(), list.externals[0].bytes), ("x", 16));
/// # Ok::<(), text::TextError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// Its id within the list.
    pub tensor: TensorId,
    /// The name by which it is given to the list.
    pub name: String,
    /// Dtype, shape and layout.
    pub spec: TensorSpec,
    /// The bytes of its storage.
    pub bytes: u64,
    /// The arena that the storage lies in.
    pub arena: ArenaId,
}

/// A list of instructions and what their ids stand for: stream `s0` is the first of `streams`,
/// arena `a0` the first of `arenas`.
///
/// Two lists are equal if their texts are: ops are compared by name, because the text form does not
/// state the order of their ids.
///
/// ```
/// # use millstream_instructions::*;
/// # use millstream_types::*;
/// let list = text::parse_list(
///     "millstream-list 1
///      stream s0 cpu:0 compute 0 in-order
///      arena a0 cpu:0
///      external %0 \"x\" f32[4] in 16 bytes of a0
///      OpCall s0:1 fill (%0 write)",
/// )?;
/// assert_eq!((list.streams.len(), list.instructions.len()), (1, 1));
/// assert_eq!(text::parse_list(&text::print_list(&list))?, list);
/// # Ok::<(), text::TextError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct InstructionList {
    /// The streams, by id.
    pub streams: Vec<StreamDecl>,
    /// The devices whose memory the arenas are, by id.
    pub arenas: Vec<DeviceId>,
    /// The tensors from outside.
    pub externals: Vec<External>,
    /// The numbers that each launch gives, by id.
    pub scalars: Vec<ScalarDecl>,
    /// The generators of random numbers, which give some of the scalars.
    pub generators: Vec<GeneratorDecl>,
    /// The lists of the executables that this list launches, by id. They launch none themselves.
    pub executables: Vec<InstructionList>,
    /// The ops, by id.
    pub ops: OpNames,
    /// The instructions, in program order.
    pub instructions: Vec<Instruction>,
}

impl InstructionList {
    /// Returns the name of an instruction of the list in profiles: that of its op or of the
    /// program's function, else that of its kind.
    ///
    /// ```
    /// use millstream_instructions::text::parse_list;
    ///
    /// let list = parse_list(
    ///     "millstream-list 1\nstream s0 cpu:0 compute 0 in-order\nRecordEvent s0:1 e0",
    /// )?;
    /// assert_eq!(list.name_of(&list.instructions[0].body), "RecordEvent");
    /// # Ok::<(), millstream_instructions::text::TextError>(())
    /// ```
    pub fn name_of<'a>(&'a self, body: &'a crate::Body) -> &'a str {
        match body.op() {
            Some(op) => body.function_name().unwrap_or_else(|| self.ops.name(op)),
            None => body.kind().name(),
        }
    }
}

impl PartialEq for InstructionList {
    fn eq(&self, other: &InstructionList) -> bool {
        let same_ops = self.ops == other.ops;
        let same = |a: &Instruction, b: &Instruction| {
            a.origin == b.origin && ((same_ops && a.body == b.body) || self.reads_as(a, other, b))
        };
        (&self.streams, &self.arenas, &self.externals, &self.executables)
            == (&other.streams, &other.arenas, &other.externals, &other.executables)
            && (&self.scalars, &self.generators) == (&other.scalars, &other.generators)
            && self.instructions.len() == other.instructions.len()
            && self.instructions.iter().zip(&other.instructions).all(|(a, b)| same(a, b))
    }
}

impl InstructionList {
    /// Returns how the list uses the storage of each external; none if it does not. A storage that
    /// is overwritten in full before it is read counts as written: its content before the list does
    /// not matter.
    ///
    /// ```
    /// # use millstream_instructions::*;
    /// # use millstream_types::*;
    /// let list = text::parse_list(
    ///     "millstream-list 1
    ///      stream s0 cpu:0 compute 0 in-order
    ///      arena a0 cpu:0
    ///      external %0 \"x\" f32[4] in 16 bytes of a0
    ///      OpCall s0:1 fill (%0 write)",
    /// )?;
    /// assert_eq!(list.external_uses(), [Some(Access::Write)]);
    /// # Ok::<(), text::TextError>(())
    /// ```
    pub fn external_uses(&self) -> Vec<Option<Access>> {
        let externals = self.externals.iter().enumerate();
        let mut external_of: FxHashMap<TensorId, usize> =
            externals.map(|(k, external)| (external.tensor, k)).collect();
        let mut uses: Vec<Option<Access>> = vec![None; self.externals.len()];
        // For each external, whether its content before the list is read; none before its first use
        // of data.
        let mut needs_content: Vec<Option<bool>> = vec![None; self.externals.len()];
        for instruction in &self.instructions {
            if let Some((tensor, _)) = instruction.body.begins() {
                let of = instruction.body.view_of();
                match of.and_then(|of| external_of.get(&of).copied()) {
                    Some(external) => external_of.insert(tensor, external),
                    None => external_of.remove(&tensor),
                };
            }
            for operand in instruction.body.operands() {
                let Some(&external) = external_of.get(&operand.tensor) else { continue };
                // Touches and sections name their operands for order alone.
                if instruction.body.class() != Class::Orders {
                    needs_content[external].get_or_insert(operand.access.reads());
                }
                let joined = uses[external].map_or(operand.access, |u| u.join(operand.access));
                uses[external] = Some(joined);
            }
        }
        let overwritten = |(uses, needs_content): (Option<Access>, Option<bool>)| match uses {
            Some(Access::ReadWrite) if needs_content == Some(false) => Some(Access::Write),
            other => other,
        };
        uses.into_iter().zip(needs_content).map(overwritten).collect()
    }

    /// Whether `a` of this list and `b` of another one name the same op and are equal otherwise.
    fn reads_as(&self, a: &Instruction, other: &InstructionList, b: &Instruction) -> bool {
        let (mut a, mut b) = (a.body.clone(), b.body.clone());
        a.remap(&mut OpsOf { list: self, own: &self.ops }).is_ok()
            && b.remap(&mut OpsOf { list: self, own: &other.ops }).is_ok()
            && a == b
    }
}

/// The ids that the ops of one list have in another.
struct OpsOf<'a> {
    list: &'a InstructionList,
    own: &'a OpNames,
}

impl Remap for OpsOf<'_> {
    /// The other list has no such op.
    type Error = ();

    fn op(&mut self, id: OpId) -> Result<OpId, ()> {
        match self.own.get(id) {
            Some(name) => self.list.ops.find(name).ok_or(()),
            // An id without a name is the same op only as itself.
            None if self.list.ops.get(id).is_none() => Ok(id),
            None => Err(()),
        }
    }
}

/// A list that has been shown to order conflicting uses, to use memory only while its owner is
/// live, and to have a record for every wait.
///
/// ```
/// # use millstream_instructions::*;
/// # use millstream_types::*;
/// # // Only the verifier makes one safely.
/// let list = text::parse_list(
///     "millstream-list 1
///      stream s0 cpu:0 compute 0 in-order
///      arena a0 cpu:0
///      external %0 \"x\" f32[4] in 16 bytes of a0
///      OpCall s0:1 fill (%0 write)",
/// )?;
/// // SAFETY: one call writes one tensor, so nothing conflicts.
/// let checked = unsafe { CheckedList::assume_checked(list) };
/// assert_eq!(checked.list().instructions.len(), 1);
/// # Ok::<(), text::TextError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CheckedList(InstructionList);

impl CheckedList {
    /// Takes the list's soundness on trust. Only the checker of `millstream_verify` knows it.
    ///
    /// ```
    /// # use millstream_instructions::*;
    /// # use millstream_types::*;
    /// let list = text::parse_list(
    ///     "millstream-list 1
    ///      stream s0 cpu:0 compute 0 in-order
    ///      arena a0 cpu:0
    ///      external %0 \"x\" f32[4] in 16 bytes of a0
    ///      OpCall s0:1 fill (%0 write)",
    /// )?;
    /// // SAFETY: one call writes one tensor, so nothing conflicts.
    /// let checked = unsafe { CheckedList::assume_checked(list) };
    /// assert_eq!(checked.list().instructions.len(), 1);
    /// # Ok::<(), text::TextError>(())
    /// ```
    ///
    /// # Safety
    /// Every two conflicting uses of a storage, as the list writes them down, are ordered by it;
    /// each use lies between its tensor's beginning and release; memory is placed again only after
    /// the last use of its previous owner; and every wait comes after its record. The list does not
    /// state the size of arenas and the real accesses of ops: the machine that runs it checks
    /// those.
    pub unsafe fn assume_checked(list: InstructionList) -> CheckedList {
        CheckedList(list)
    }

    /// Returns the list.
    ///
    /// ```
    /// # use millstream_instructions::*;
    /// # use millstream_types::*;
    /// let list = text::parse_list(
    ///     "millstream-list 1
    ///      stream s0 cpu:0 compute 0 in-order
    ///      arena a0 cpu:0
    ///      external %0 \"x\" f32[4] in 16 bytes of a0
    ///      OpCall s0:1 fill (%0 write)",
    /// )?;
    /// // SAFETY: as the list has one instruction.
    /// let checked = unsafe { CheckedList::assume_checked(list.clone()) };
    /// assert_eq!(checked.list(), &list);
    /// # Ok::<(), text::TextError>(())
    /// ```
    pub const fn list(&self) -> &InstructionList {
        &self.0
    }
}
