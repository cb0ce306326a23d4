//! The tables of layers: which crate of the workspace may depend on which, and which folder of a
//! crate on which.
//!
//! `cargo xtask layering` checks it. No other place states these rules.

/// Each crate, lowest layer first, with the crates of the workspace that it may depend on.
pub(crate) const LAYERS: &[(&str, &[&str])] = &[
    ("millstream-files", &[]),
    ("millstream-types", &[]),
    ("millstream-backoff", &[]),
    ("millstream-ops", &["millstream-types"]),
    ("millstream-instructions", &["millstream-types", "millstream-ops"]),
    ("millstream-verify", &["millstream-types", "millstream-ops", "millstream-instructions"]),
    ("millstream-trace", &["millstream-types", "millstream-ops", "millstream-instructions"]),
    ("millstream-ep", &["millstream-types", "millstream-backoff"]),
    ("millstream-conformance", &["millstream-types", "millstream-backoff", "millstream-ep"]),
    (
        "millstream-comm",
        &["millstream-types", "millstream-backoff", "millstream-ops", "millstream-ep"],
    ),
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
        "millstream-runtime",
        &[
            "millstream-types",
            "millstream-backoff",
            "millstream-ops",
            "millstream-comm",
            "millstream-instructions",
            "millstream-ep",
            "millstream-kernels",
            "millstream-stream-policy",
        ],
    ),
    (
        "millstream-vm",
        &[
            "millstream-files",
            "millstream-types",
            "millstream-ops",
            "millstream-comm",
            "millstream-instructions",
            "millstream-verify",
            "millstream-ep",
            "millstream-kernels",
            "millstream-stream-policy",
            "millstream-runtime",
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
            "millstream-conformance",
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
            "millstream-vm",
        ],
    ),
    ("millstream-terminal", &[]),
    (
        "millstream-profile",
        &[
            "millstream-types",
            "millstream-ops",
            "millstream-instructions",
            "millstream-vm",
            "millstream-terminal",
        ],
    ),
    (
        "millstream-timelines",
        &[
            "millstream-types",
            "millstream-instructions",
            "millstream-verify",
            "millstream-trace",
            "millstream-profile",
        ],
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
            "millstream-backoff",
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
        &["millstream-files", "millstream", "millstream-trace", "millstream-runner"],
    ),
    (
        "millstream-gpu-check",
        &[
            "millstream-files",
            "millstream",
            "millstream-trace",
            "millstream-runner",
            "millstream-terminal",
            "millstream-testing",
            "millstream-conformance",
            "millstream-bench",
        ],
    ),
    // Its tests run machines on the stand-in.
    (
        "millstream-cuda-standin",
        &[
            "millstream-types",
            "millstream-backoff",
            "millstream-ops",
            "millstream-comm",
            "millstream-ep",
            "millstream-kernels",
            "millstream-trace",
            "millstream-runner",
            "millstream",
            "millstream-testing",
            "millstream-conformance",
            "millstream-gpu-check",
        ],
    ),
    (
        "millstream-cli",
        &[
            "millstream-files",
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
    (
        "millstream-python",
        &["millstream-files", "millstream-types", "millstream-vm", "millstream-cli"],
    ),
    (
        "xtask",
        &["millstream-files", "millstream-types", "millstream-ops", "millstream-instructions"],
    ),
];

/// The crates that the tests of a crate may use beyond its layer. Tests of the public API run
/// traces.
pub(crate) const TESTED_WITH: &[(&str, &[&str])] = &[
    (
        "millstream",
        &[
            "millstream-files",
            "millstream-runtime",
            "millstream-verify",
            "millstream-trace",
            "millstream-runner",
            "millstream-explore",
            "millstream-testing",
        ],
    ),
    ("millstream-verify", &["millstream-testing"]),
    ("millstream-runtime", &["millstream-vm"]),
    ("millstream-kernels", &["millstream-testing"]),
    ("millstream-explore", &["millstream-timelines"]),
];

/// The order of the folders of a crate.
pub(crate) struct Folders {
    /// The crate's sources, from the root of the workspace.
    pub(crate) src: &'static str,
    /// The folders, lowest first. Each may use the ones before it.
    pub(crate) order: &'static [&'static str],
    /// The exceptions that are left: a folder, one above it, and the number of references. A number
    /// may only become smaller, and the check fails until the table follows.
    pub(crate) upward: &'static [(&'static str, &'static str, usize)],
}

/// The crates whose folders have an order.
pub(crate) const FOLDERS: &[Folders] = &[
    Folders {
        src: "crates/runtime/src",
        order: &[
            "sync",
            "scope",
            "host",
            "tables",
            "profile",
            "tapes",
            "thread_ctx",
            "pool",
            "driver",
            "engine",
            "replay",
        ],
        // A tape names its stream by the value that only the router's `open` makes.
        upward: &[("tapes", "engine", 2)],
    },
    Folders {
        src: "crates/vm/src",
        order: &["handle", "tensor", "gradient", "executable", "capture", "dependency_engine"],
        upward: &[],
    },
];
