//! The certificate of a list: a hash that is equal for equal lists.

use millstream_instructions::text::print_list;
use millstream_instructions::{Class, InstructionList};
use millstream_types::Origin;

fn strip(list: &mut InstructionList) {
    list.instructions.retain(|i| i.body.class() != Class::Annotates);
    for instruction in &mut list.instructions {
        instruction.origin = Origin::Unknown;
    }
}

/// Returns the hash (BLAKE3, hexadecimal) of a list's text without origins and without the reasons
/// of waits, which do not change its meaning. The hash depends neither on the place of the
/// program's file nor on the driver.
pub fn certificate(list: &InstructionList) -> String {
    let mut bare = list.clone();
    strip(&mut bare);
    bare.executables.iter_mut().for_each(strip);
    blake3::hash(print_list(&bare).as_bytes()).to_hex().to_string()
}
