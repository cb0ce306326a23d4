//! The public traces.

use millstream_profile::Profile;
use millstream_profile::model::Role;
use millstream_profile::order::{Order, Segment, critical_path};
use millstream_profile::summary::{self, Show};
use millstream_timelines::{Options, read};

use crate::{check, open, public};

#[test]
fn every_public_file_is_read() {
    for name in [
        "kineto/alexnet_a100_cuda_sync.json.gz",
        "kineto/alexnet_a100_no_event_ids.json.gz",
        "kineto/cuda_event_sync.json.gz",
        "kineto/resnet_ddp_2rank_nccl_meta.json.gz",
        "kineto/sampled_rank0_5streams.json.gz",
        "kineto/simple_add_kineto.json.gz",
        "kineto/trace_diff_control_rank3_4streams.json.gz",
        "pytorch-et/linear_kineto.json.gz",
        "pytorch-et/resnet50_kineto.json.gz",
        "pytorch-et/dlrm_8rank/kineto_rank0.json.gz",
        "chakra/resnet_ddp.chakra.0.et.gz",
    ] {
        let Some(path) = public(name) else { return };
        let timeline = open(&path);
        check(&timeline.profile);
        let mut out = Vec::new();
        let show = Show { rows: 6, terminal: false };
        summary::write(&timeline.profile, show, &mut out).unwrap();
        println!("== {name}\n{}", String::from_utf8(out).unwrap());
    }
}

/// Returns how many kernels are on the critical path, and their time there in microseconds.
fn kernels_on_path(profile: &Profile) -> (usize, u64) {
    let path = critical_path(profile, &Order::of(profile));
    let kernels = path.iter().filter(|part| match part.segment {
        Segment::Runs(k) => {
            let instruction = &profile.instructions[k as usize];
            let is_thread = profile.streams[instruction.stream as usize].thread;
            instruction.role == Role::Work && !is_thread
        }
        Segment::Gap { .. } | Segment::Submits { .. } | Segment::Resumes { .. } => false,
    });
    let times: Vec<u64> = kernels.map(|part| part.end - part.start).collect();
    (times.len(), times.iter().sum::<u64>() / 1000)
}

/// Holistic Trace Analysis 0.6 finds 34 kernels of 3712 us, and 2 of 38 us, on its critical paths.
#[test]
fn the_critical_path_has_the_kernels_of_holistic_trace_analysis() {
    let forward = "[param|pytorch.model.alex_net|0|0|0|measure|forward]";
    for (name, range, number, expected) in [
        ("kineto/alexnet_a100_cuda_sync.json.gz", forward, 1, (34, 3712)),
        ("kineto/cuda_event_sync.json.gz", "ProfilerStep#100", 0, (2, 38)),
    ] {
        let Some(path) = public(name) else { return };
        let within = Some((range.to_owned(), number));
        let profile = read(&path, &Options { within, ..Options::default() }).unwrap().profile;
        assert_eq!(kernels_on_path(&profile), expected, "{name}");
    }
}

#[test]
fn no_file_says_more_than_it_states() {
    let Some(path) = public("kineto/alexnet_a100_cuda_sync.json.gz") else { return };
    let profile = open(&path).profile;
    // 20 of 34 waits between streams have an event that the file names.
    let device = profile.waits.iter().filter(|w| {
        let waiter = &profile.instructions[w.waiter as usize];
        !profile.streams[waiter.stream as usize].thread
    });
    assert_eq!(device.count(), 20);
    let lost = "14 waits between streams name no event that is known: their order is not restored";
    assert!(profile.remarks.iter().any(|remark| remark == lost), "{:?}", profile.remarks);
}
