//! Instructions that a CPU model has no figures for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Instructions without figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unknown {
    /// Executed instructions without figures.
    pub count: u64,
    /// Executed instructions whose figures are approximated from a similar form.
    pub approximated: u64,
    /// The most frequent forms, most first.
    pub forms: Vec<UnknownForm>,
}

/// One instruction form without figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownForm {
    /// Form, for example `vpdpbusd xmm, xmm, xmm`.
    pub form: String,
    /// How it was treated: `unknown`, or `approximated as …`.
    pub treatment: String,
    /// CPU model that lacks it.
    pub cpu: String,
    /// Times executed.
    pub count: u64,
}
