//! Passes refuse what is no list of the checker's, with the place in the program.

use std::collections::BTreeMap;

use millstream_instructions::InstructionList;
use millstream_instructions::passes::{CoreCosts, Effort, Outputs, Pass, PassOptions, run};
use millstream_instructions::text::parse_list;
use millstream_ops::OpRegistry;
use millstream_types::Error;

/// Returns the list of these instructions.
fn list(instructions: &str) -> InstructionList {
    let header = "millstream-list 1\nstream s0 cpu:0 compute 0 in-order\n\
                  stream s1 cpu:0 critical-section 0 in-order\narena a0 cpu:0\n\
                  external %0 \"x\" f32[4] in 16 bytes of a0\n";
    parse_list(&format!("{header}{instructions}")).unwrap()
}

/// Returns the error of all passes on a list of these instructions.
fn refused(instructions: &str) -> String {
    let list = list(instructions);
    let errors = Pass::ALL.map(|pass| applied(pass, &list).unwrap_err().to_string());
    assert!(errors.iter().all(|e| *e == errors[0]), "{errors:?}");
    errors[0].clone()
}

fn applied(pass: Pass, list: &InstructionList) -> Result<InstructionList, Error> {
    let (ops, costs, outputs) = (OpRegistry::new(), CoreCosts::default(), Outputs::All);
    let options = PassOptions {
        ops: &ops,
        standard_kernels: &|_| true,
        costs: &costs,
        streams: 2,
        threads: 1,
        outputs: &outputs,
        effort: Effort::Usual,
        budgets: &BTreeMap::new(),
    };
    pass.apply(list, &options)
}

#[test]
fn errors_name_the_place() {
    let released = "ReleaseTensor %0 # a.py:1\nOpCall s0:1 relu_ (%0 readwrite) # a.py:2";
    assert_eq!(refused(released), "a.py:2: the list is refused: %0 is used after its release");
    assert_eq!(
        refused("OpCall s0:1 relu_ (%7 readwrite) # a.py:1"),
        "a.py:1: the list is refused: %7 never began"
    );
    assert_eq!(
        refused("OpCall s9:1 relu_ (%0 readwrite) # a.py:1"),
        "a.py:1: the list is refused: s9 is not declared"
    );
}

#[test]
fn a_section_that_never_ends_is_refused() {
    let list = list("CriticalSectionBegin s1:1 (%0 readwrite) # a.py:1");
    assert_eq!(
        applied(Pass::Waits, &list).unwrap_err().to_string(),
        "a.py:1: invalid list: the critical section begun here is never ended"
    );
}

#[test]
fn passes_have_names() {
    assert_eq!(Pass::parse_list("dead, waits,,"), Ok(vec![Pass::Dead, Pass::Waits]));
    assert_eq!(Pass::parse_list(""), Ok(Vec::new()));
    let error = Pass::parse_list("dead,wait").unwrap_err().to_string();
    assert_eq!(error, "unknown pass 'wait'; did you mean 'waits'?");
    for pass in Pass::ALL {
        assert_eq!(pass.name().parse(), Ok(pass));
    }
}

#[test]
fn the_hook_sees_every_list_and_can_end_the_run() {
    let list = parse_list("millstream-list 1\n").unwrap();
    let (ops, costs, outputs) = (OpRegistry::new(), CoreCosts::default(), Outputs::All);
    let options = PassOptions {
        ops: &ops,
        standard_kernels: &|_| true,
        costs: &costs,
        streams: 2,
        threads: 1,
        outputs: &outputs,
        effort: Effort::Usual,
        budgets: &BTreeMap::new(),
    };
    let mut seen = Vec::new();
    let ended = Error::List { message: "enough".to_owned() };
    let result = run(&list, &Pass::ALL, &options, |pass, after| {
        seen.push(pass);
        assert_eq!(*after, list);
        if seen.len() == 2 { Err(ended.clone()) } else { Ok(()) }
    });
    assert_eq!((result, &seen[..]), (Err(ended), &Pass::ALL[..2]));
}
