//! What calls compute and move, from the shapes of their operands.

use millstream_instructions::passes::cost::{bytes, operations};
use millstream_types::{DType, TensorSpec};

use crate::model::{Instruction, Operand, Profile, Role};

/// The rates that a computer reaches, in 10⁹ a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Rates {
    /// Operations of f32 in a matrix product.
    pub gflop_s: f64,
    /// Bytes read and written by a copy.
    pub gb_s: f64,
}

/// Returns the operands that a call reads, and those that it writes, without gaps; none if the
/// shape of one is not known.
pub fn operands(profile: &Profile, instruction: &Instruction) -> Option<[Vec<TensorSpec>; 2]> {
    let specs = |is_used: fn(&Operand) -> bool| -> Option<Vec<TensorSpec>> {
        let used = profile.operands_of(instruction).iter().filter(|operand| is_used(operand));
        used.map(|operand| spec(&profile.tensors.get(operand.tensor as usize)?.spec)).collect()
    };
    Some([specs(|operand| operand.reads)?, specs(|operand| operand.writes)?])
}

/// Returns the operations of a call, and the bytes that it reads and writes; 0 if nothing is known.
pub fn of(profile: &Profile, instruction: &Instruction) -> [u64; 2] {
    let is_call = instruction.role == Role::Work && profile.name_of(instruction) != "SyncRead";
    let known = is_call.then(|| operands(profile, instruction)).flatten();
    let Some([reads, writes]) = known else { return [0; 2] };
    let [reads, writes]: [Vec<&TensorSpec>; 2] = [&reads, &writes].map(|all| all.iter().collect());
    let name = profile.name_of(instruction);
    [operations(name, &reads, &writes), bytes(&reads) + bytes(&writes)]
}

/// Reads the short form of a tensor, as in `f32[2,3]`.
fn spec(text: &str) -> Option<TensorSpec> {
    let (dtype, lengths) = text.strip_suffix(']')?.split_once('[')?;
    let dtype: DType = dtype.parse().ok()?;
    let lengths = lengths.split(',').filter(|length| !length.is_empty());
    let shape: Vec<usize> = lengths.map(|length| length.parse().ok()).collect::<Option<_>>()?;
    TensorSpec::contiguous(dtype, &shape).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Tensor;

    #[test]
    fn a_product_has_operations_and_bytes() {
        let tensor = |spec: &str| Tensor { spec: spec.to_owned(), ..Tensor::default() };
        let one = |tensor, writes: bool| Operand { tensor, reads: !writes, writes };
        let call = Instruction { operands: [0, 3], ..Instruction::default() };
        let profile = Profile {
            names: vec!["matmul".to_owned()],
            tensors: ["f32[2,3]", "f32[3,4]", "f32[2,4]"].map(tensor).to_vec(),
            operands: vec![one(0, false), one(1, false), one(2, true)],
            ..Profile::default()
        };
        assert_eq!(of(&profile, &call), [48, 4 * (6 + 12 + 8)]);
        let unknown = Profile { tensors: vec![tensor("?"); 3], ..profile };
        assert_eq!(of(&unknown, &call), [0, 0]);
    }
}
