//! The memory cases as tests, on the machines that `common` makes.

macro_rules! tests {
    ($($name:ident,)*) => {$(
        #[test]
        fn $name() {
            super::memory_cases::$name();
        }
    )*};
}

tests! {
    used_elsewhere_it_is_pending,
    waited_for_it_is_free,
    an_earlier_record_does_not_free_it,
    a_full_memory_costs_one_wait,
    one_of_two_users_is_not_enough,
    knowledge_comes_through_others,
    ten_thousand_uses_elsewhere_make_a_few_events,
    blocks_of_other_streams_are_taken,
    pieces_are_given_back_for_a_large_one,
    failures_and_waits_given_up_keep_nothing,
    what_a_host_function_holds_comes_back,
}
