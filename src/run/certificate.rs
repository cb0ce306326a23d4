//! The certificate of a list: one short text for what a machine was given.

use millstream_instructions::text::print_list;
use millstream_instructions::{Effect, InstructionList};
use millstream_types::Origin;

/// The hash (BLAKE3, hexadecimal) of a list's text, without what does not change what it means:
/// where its instructions came from, and why waits are there. So it does not depend on where the
/// program's file lies, nor on who ran the list.
pub fn certificate(list: &InstructionList) -> String {
    let mut bare = list.clone();
    bare.instructions.retain(|i| i.body.effect() != Effect::Annotates);
    for instruction in &mut bare.instructions {
        instruction.origin = Origin::Unknown;
    }
    blake3::hash(print_list(&bare).as_bytes()).to_hex().to_string()
}
