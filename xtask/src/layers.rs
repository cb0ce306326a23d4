//! The table of layers: which crate of the workspace may depend on which.
//!
//! `cargo xtask layering` checks it. No other place states these rules.

/// Each crate, lowest layer first, with the crates of the workspace that it may depend on.
pub(crate) const LAYERS: &[(&str, &[&str])] = &[
    ("millstream-types", &[]),
    ("millstream-ops", &["millstream-types"]),
    ("millstream-instructions", &["millstream-types", "millstream-ops"]),
    ("millstream-verify", &["millstream-types", "millstream-ops", "millstream-instructions"]),
    ("millstream-trace", &["millstream-types", "millstream-ops", "millstream-instructions"]),
    ("millstream-ep", &["millstream-types"]),
    ("millstream-comm", &["millstream-types", "millstream-ops", "millstream-ep"]),
    ("millstream-linalg", &[]),
    (
        "millstream-kernels",
        &[
            "millstream-types",
            "millstream-ops",
            "millstream-linalg",
            "millstream-comm",
            "millstream-ep",
        ],
    ),
    ("millstream-stream-policy", &["millstream-types", "millstream-instructions", "millstream-ep"]),
    (
        "millstream-vm",
        &[
            "millstream-types",
            "millstream-ops",
            "millstream-comm",
            "millstream-instructions",
            "millstream-verify",
            "millstream-ep",
            "millstream-kernels",
            "millstream-stream-policy",
        ],
    ),
    (
        "millstream",
        &[
            "millstream-types",
            "millstream-ops",
            "millstream-comm",
            "millstream-instructions",
            "millstream-ep",
            "millstream-kernels",
            "millstream-stream-policy",
            "millstream-vm",
        ],
    ),
    (
        "millstream-runner",
        &[
            "millstream-types",
            "millstream-ops",
            "millstream-comm",
            "millstream-instructions",
            "millstream-verify",
            "millstream-trace",
            "millstream-ep",
            "millstream-kernels",
            "millstream-stream-policy",
            "millstream-vm",
        ],
    ),
    ("millstream-terminal", &[]),
    (
        "millstream-profile",
        &["millstream-types", "millstream-instructions", "millstream-vm", "millstream-terminal"],
    ),
    (
        "millstream-timelines",
        &["millstream-types", "millstream-instructions", "millstream-trace", "millstream-profile"],
    ),
    (
        "millstream-explore",
        &[
            "millstream-types",
            "millstream-ops",
            "millstream-comm",
            "millstream-instructions",
            "millstream-verify",
            "millstream-trace",
            "millstream-ep",
            "millstream-kernels",
            "millstream-vm",
            "millstream-runner",
            "millstream-profile",
        ],
    ),
    (
        "millstream-testing",
        &[
            "millstream-types",
            "millstream-ops",
            "millstream-comm",
            "millstream-instructions",
            "millstream-verify",
            "millstream-kernels",
            "millstream",
        ],
    ),
    (
        "millstream-bench",
        &[
            "millstream",
            "millstream-trace",
            "millstream-verify",
            "millstream-runner",
            "millstream-profile",
            "millstream-explore",
            "millstream-terminal",
        ],
    ),
    (
        "millstream-gpu-check",
        &[
            "millstream",
            "millstream-trace",
            "millstream-runner",
            "millstream-terminal",
            "millstream-testing",
            "millstream-bench",
        ],
    ),
    // Its tests run machines on the stand-in.
    (
        "millstream-cuda-standin",
        &[
            "millstream-types",
            "millstream-ops",
            "millstream-comm",
            "millstream-ep",
            "millstream-kernels",
            "millstream-trace",
            "millstream-runner",
            "millstream",
            "millstream-testing",
            "millstream-gpu-check",
        ],
    ),
    (
        "millstream-cli",
        &[
            "millstream-types",
            "millstream-ops",
            "millstream-comm",
            "millstream-instructions",
            "millstream-verify",
            "millstream-trace",
            "millstream-vm",
            "millstream-runner",
            "millstream-explore",
            "millstream-terminal",
            "millstream-profile",
            "millstream-timelines",
            "millstream-bench",
            "millstream-gpu-check",
        ],
    ),
    ("xtask", &["millstream-types", "millstream-ops", "millstream-instructions"]),
];

/// The crates that the tests of a crate may use beyond its layer. Tests of the public API run
/// traces.
pub(crate) const TESTED_WITH: &[(&str, &[&str])] = &[
    (
        "millstream",
        &[
            "millstream-verify",
            "millstream-trace",
            "millstream-runner",
            "millstream-explore",
            "millstream-testing",
        ],
    ),
    ("millstream-verify", &["millstream-testing"]),
    ("millstream-kernels", &["millstream-testing"]),
    ("millstream-timelines", &["millstream-verify"]),
];
