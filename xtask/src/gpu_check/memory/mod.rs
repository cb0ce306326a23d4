//! The memory cases T1 to T11 of the tests, on the first device and the host.

#[allow(dead_code)]
#[path = "../../../../tests/machine/common.rs"]
mod base;
mod common;
#[path = "../../../../tests/machine/memory_cases.rs"]
mod memory_cases;

use std::any::Any;
use std::panic::catch_unwind;

use anyhow::Result;

use super::Setting;
use super::section::{Section, Time};
use memory_cases as cases;

const CASES: &[(&str, fn())] = &[
    ("T1: used elsewhere, a block is pending", cases::used_elsewhere_it_is_pending),
    ("T2: waited for, it is free", cases::waited_for_it_is_free),
    ("T3: an earlier record does not free it", cases::an_earlier_record_does_not_free_it),
    ("T4: a full memory costs one wait", cases::a_full_memory_costs_one_wait),
    ("T5: one of two users is not enough", cases::one_of_two_users_is_not_enough),
    ("T6: knowledge comes through others", cases::knowledge_comes_through_others),
    ("T7: many uses make few events", cases::ten_thousand_uses_elsewhere_make_a_few_events),
    ("T8: blocks of other streams are taken", cases::blocks_of_other_streams_are_taken),
    ("T9: pieces are given back", cases::pieces_are_given_back_for_a_large_one),
    ("T10: failures keep nothing", cases::failures_and_waits_given_up_keep_nothing),
    ("T11: what a function holds comes back", cases::what_a_host_function_holds_comes_back),
];

pub(super) fn check(setting: &Setting, time: &Time, section: &mut Section) -> Result<()> {
    if setting.device != 0 {
        section.notes.push("the cases are of the first device".to_owned());
    }
    // A case says by a panic what does not hold; the report has it, and nobody else need hear.
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    for (done, (name, case)) in CASES.iter().enumerate() {
        if time.is_up() || (setting.quick && done > 2) {
            section.cut = Some(format!("{} of {} cases", CASES.len() - done, CASES.len()));
            break;
        }
        section.check(name, catch_unwind(case).err().map(|payload| said(&*payload)));
    }
    std::panic::set_hook(told);
    Ok(())
}

fn said(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}
