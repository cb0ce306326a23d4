use crate::list::InstructionList;
use crate::passes::PassOptions;
use millstream_types::Result;
pub(super) fn assign(list: &InstructionList, _: &PassOptions<'_>) -> Result<InstructionList> {
    Ok(list.clone())
}
