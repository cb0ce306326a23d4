//! Which crate of the workspace may depend on which: the whole of it, and the only place.
//!
//! `cargo xtask layering` and `tests/tidy.rs` both read it.

/// Each crate, lowest layer first, with the crates of the workspace that it may depend on.
pub(crate) const LAYERS: &[(&str, &[&str])] = &[
    ("millstream-types", &[]),
    ("millstream-ops", &["millstream-types"]),
    ("millstream-instructions", &["millstream-types", "millstream-ops"]),
    ("millstream-verify", &["millstream-types", "millstream-ops", "millstream-instructions"]),
    ("millstream-trace", &["millstream-types", "millstream-ops", "millstream-instructions"]),
    ("millstream-ep", &["millstream-types"]),
    ("millstream-kernels", &["millstream-types", "millstream-ops", "millstream-ep"]),
    ("millstream-stream-policy", &["millstream-types", "millstream-instructions", "millstream-ep"]),
    (
        "millstream-vm",
        &[
            "millstream-types",
            "millstream-ops",
            "millstream-instructions",
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
            "millstream-instructions",
            "millstream-verify",
            "millstream-trace",
            "millstream-ep",
            "millstream-kernels",
            "millstream-stream-policy",
            "millstream-vm",
        ],
    ),
    // Its tests run machines on it.
    (
        "millstream-cuda-standin",
        &[
            "millstream-types",
            "millstream-ops",
            "millstream-ep",
            "millstream-kernels",
            "millstream",
        ],
    ),
    ("xtask", &["millstream"]),
];
